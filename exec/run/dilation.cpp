// SPDX-License-Identifier: Apache-2.0
#include "exec/run/dilation.hpp"

#include <algorithm>
#include <utility>

#include "models/price/transforms.hpp"
#include "models/time/analytic_backend.hpp"

namespace dovetail::exec {
namespace {

constexpr double margin = 2;  // work may take this times what it did

// The most that an op's real finish would lie behind its deadline.
double worst_lag(const PricedSchedule& stretched, const Emulated& emulated) {
  const Schedule& s = *stretched.schedule;
  struct Finish {
    double deadline = 0, real = 0;
    void after(const Finish& before) {
      deadline = std::max(deadline, before.deadline);
      real = std::max(real, before.real);
    }
  };
  std::vector<Finish> finish(s.ops.size()), stream(s.streams.size());
  double worst = 0;
  for (const OpId i : s.ops.ids()) {
    Finish& of_stream = stream[static_cast<std::size_t>(s.ops[i].stream)];
    Finish f = of_stream;
    for (OpId before : s.dependencies_of(s.ops[i])) f.after(finish[static_cast<std::size_t>(before)]);
    if (emulated.held[i]) {
      f.deadline += stretched.duration[i].value();
      f.real = std::max(f.real + margin * emulated.work[i].value(), f.deadline);
      worst = std::max(worst, f.real - f.deadline);
    } else {
      f.real += emulated.work[i].value();
      f.deadline = f.real;
    }
    finish[i] = of_stream = f;
  }
  return worst;
}

}  // namespace

Seconds overrun_tolerance(const PricedSchedule& stretched) {
  std::vector<double> scratch;
  return std::max(Seconds(200e-6), .01 * analytic_makespan(stretched, scratch));
}

// A held op lasts its own time whatever runs beside it, and so does one that was measured: nothing is shared.
PricedSchedule stretch(const PricedSchedule& priced, const Emulated& emulated, double dilation) {
  IdVector<OpId, Seconds> durations = emulated.work;
  for (const OpId i : durations.ids())
    if (emulated.held[i]) durations[i] = priced.duration[i] * dilation;
  return with_durations(priced, std::move(durations));
}

double choose_dilation(const PricedSchedule& priced, const Emulated& emulated) {
  const auto fits = [&](double dilation) {
    const PricedSchedule stretched = stretch(priced, emulated, dilation);
    return worst_lag(stretched, emulated) <= overrun_tolerance(stretched).value();
  };
  constexpr double largest = 1e9;  // reached where held ops are free: nothing makes room for their work
  double low = 1, high = 1;
  for (; !fits(high) && high < largest; high *= 2) low = high;
  if (high >= largest) return 1;
  while (high > 1.01 * low) {
    const double middle = (low + high) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace dovetail::exec

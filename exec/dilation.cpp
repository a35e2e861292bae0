#include "exec/dilation.hpp"

#include <algorithm>

#include "models/analytic_backend.hpp"
#include "models/errors.hpp"

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
  for (std::size_t i = 0; i < s.ops.size(); ++i) {
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

PricedSchedule stretch(const PricedSchedule& priced, const Emulated& emulated, double dilation) {
  PricedSchedule result = priced;
  for (std::size_t i = 0; i < priced.duration.size(); ++i) {
    const Seconds wanted = emulated.held[i] ? priced.duration[i] * dilation : emulated.work[i];
    const double factor = priced.duration[i] > Seconds(0) ? wanted / priced.duration[i] : 0;
    result.duration[i] = wanted;
    result.fixed[i] = factor > 0 ? priced.fixed[i] * factor : wanted;
    for (std::int32_t d = priced.first_demand[i]; d < priced.first_demand[i + 1]; ++d)
      result.demands[static_cast<std::size_t>(d)].seconds =
          priced.demands[static_cast<std::size_t>(d)].seconds * factor;
  }
  return result;
}

double choose_dilation(const PricedSchedule& priced, const Emulated& emulated) {
  const auto fits = [&](double dilation) {
    const PricedSchedule stretched = stretch(priced, emulated, dilation);
    return worst_lag(stretched, emulated) <= overrun_tolerance(stretched).value();
  };
  if (fits(1)) return 1;
  constexpr double largest = 1e9;
  double low = 1, high = 2;
  for (; !fits(high); high *= 2) {
    check(high < largest, "no dilation makes the real work fit");  // all durations 0
    low = high;
  }
  while (high > 1.01 * low) {
    const double middle = (low + high) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace dovetail::exec

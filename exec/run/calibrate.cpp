#include "exec/run/calibrate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/base/errors.hpp"
#include "models/base/fit.hpp"
#include "models/base/names.hpp"

namespace dovetail::exec {
namespace {

// A sample of which a thread waited a larger share for a core was disturbed: on a shared machine with two cores, real
// runs whose wall time was over 1.04 of their CPU time missed predictions that others met within 2 %.
constexpr double most_without_core = .04;
// Threads of a pair take turns of some milliseconds where they share a core.
constexpr double longer_pairs = 20;

std::string name_of(const Probe& p) {
  switch (p.kind) {
    case ProbeKind::Gemm:
      return fmt::format("GEMM ({})", name_in(dtype_names, p.dtype));
    case ProbeKind::Encode:
    case ProbeKind::Decode:
      return "encode, decode";
    case ProbeKind::StridedCopy:
      return p.rows == 1 ? "copy" : "strided copy";
    case ProbeKind::HostCopy:
      return "host copy";
    case ProbeKind::Collective:
      return std::string(name_in(collective_names, p.collective));
  }
  throw InternalError("a probe of no kind");
}

// Of a meter without collectives.
bool stands_in(const std::pair<InterferenceClass, Probe>& kind) {
  return (kind.first == InterferenceClass::Inter || kind.first == InterferenceClass::Intra) &&
         kind.second.kind != ProbeKind::Collective;
}

class Calibrator {
 public:
  Calibrator(Meter& meter, const CalibrateOptions& options) : meter_(meter), options_(options) {}

  // alpha, beta and provenance of any cost.
  template <class Cost>
  Cost fitted(const std::vector<Probe>& probes, Cost cost, std::string_view what) {
    options_.begin(name_of(probes.front()));
    bool disturbed = meter_.oversubscribed(1);
    std::vector<TimedSize> times;
    for (const Probe& probe : probes) {
      int undisturbed = 0;
      times.push_back({probe.size(), alone(probe, undisturbed)});
      disturbed = disturbed || 2 * undisturbed < samples_;
    }
    LineFit fit = fit_line(std::move(times));
    cost.alpha = fit.alpha;
    cost.beta = decltype(cost.beta)(fit.beta.value());
    cost.provenance = {Origin::Measured, fmt::format("{}; {}, {}", options_.where, what, at_once()), disturbed,
                       std::make_shared<const Fit>(std::move(fit.quality))};
    return cost;
  }

  // Alone and together in turns, so that what else the machine does falls on all alike.
  Interference pair(const std::pair<InterferenceClass, Probe>& a, const std::pair<InterferenceClass, Probe>& b) {
    options_.begin(fmt::format("{} beside {}", name_of(a.second), name_of(b.second)));
    std::array<Repeated, 2> both{Repeated{a.second, repetitions(a.second, longer_pairs)},
                                 Repeated{b.second, repetitions(b.second, longer_pairs)}};
    std::array<Repeated, 2> first = both, second = both;
    first[1].times = second[0].times = 0;
    std::vector<Seconds> alone_a, alone_b, together_a, together_b;
    const auto step = [&] {
      alone_a.push_back(meter_.run(first)[0].time);
      alone_b.push_back(meter_.run(second)[1].time);
      const std::vector<Elapsed> together = meter_.run(both);
      together_a.push_back(together[0].time);
      together_b.push_back(together[1].time);
      return std::max(together_a.back(), together_b.back());
    };
    measure(step, options_.measure);
    std::pair<double, double> speeds =
        speeds_beside({median(alone_a), median(alone_b)}, {median(together_a), median(together_b)});
    const auto [measured_a, measured_b] = speeds;
    const bool raised = raise_to_one(speeds);
    std::string source =
        fmt::format("{}; {} beside {}, {}", options_.where, name_of(a.second), name_of(b.second), at_once());
    const bool stand_in = stands_in(a) || stands_in(b);
    if (stand_in) source += "; the copy stands for an exchange, which reads and writes the same memory";
    if (raised) source += fmt::format("; measured {:.3f} and {:.3f}, raised to add up to 1", measured_a, measured_b);
    return {a.first,
            b.first,
            speeds.first,
            speeds.second,
            {stand_in ? Origin::Assumed : Origin::Measured, source, meter_.oversubscribed(2)}};
  }

 private:
  std::string at_once() const {
    return meter_.ranks() == 1 ? "one rank" : fmt::format("{} ranks at once", meter_.ranks());
  }

  // So that a sample lasts for about `shortest`.
  int repetitions(const Probe& probe, double longer = 1) {
    constexpr double most = 100000;
    const std::array<Repeated, 1> once{Repeated{probe, 1}};
    meter_.run(once);  // first touch
    const Seconds time = meter_.run(once)[0].time;
    return static_cast<int>(std::clamp(std::ceil(longer * options_.shortest / time), 1.0, most));
  }

  Seconds alone(const Probe& probe, int& undisturbed) {
    const std::array<Repeated, 1> work{Repeated{probe, repetitions(probe)}};
    samples_ = 0;
    const auto step = [&] {
      const Elapsed elapsed = meter_.run(work)[0];
      ++samples_;
      if (elapsed.without_core <= most_without_core * elapsed.time) ++undisturbed;
      return elapsed.time / work[0].times;
    };
    return measure(step, options_.measure).median;
  }

  Meter& meter_;
  const CalibrateOptions& options_;
  int samples_ = 0;  // of the last point
};

}  // namespace

std::pair<double, double> speeds_beside(std::pair<Seconds, Seconds> alone, std::pair<Seconds, Seconds> together) {
  if (together.first > together.second) {
    const auto [b, a] = speeds_beside({alone.second, alone.first}, {together.second, together.first});
    return {a, b};
  }
  const Seconds after = together.second - together.first;
  return {alone.first / together.first, (alone.second - after) / together.first};
}

bool raise_to_one(std::pair<double, double>& speeds) {
  constexpr double least = .01;
  speeds = {std::clamp(speeds.first, least, 1.0), std::clamp(speeds.second, least, 1.0)};
  const double sum = speeds.first + speeds.second;
  if (sum >= 1) return false;
  speeds.first /= sum;
  speeds.second = 1 - speeds.first;
  return true;
}

Calibration calibrate(Meter& meter, const CalibrationGrid& grid, const CalibrateOptions& options) {
  Calibrator run(meter, options);
  Calibration c;
  for (const std::vector<Probe>& probes : grid.gemms) {
    c.gemms.push_back(run.fitted(probes, GemmCost{probes.front().dtype, {}, {}, {}}, "products of matrices"));
    if (!(c.gemms.back().beta > SecondsPerFlop(0)))  // no calibration: work would cost nothing
      throw DeviceError("calibrate",
                        "times of GEMMs do not grow with their size: the machine is too busy to measure it");
  }
  c.memory = run.fitted(grid.memory, MemoryCost{}, "encode and decode kernels");
  if (!grid.strided.empty()) c.strided_copy = run.fitted(grid.strided, MemoryCost{}, "copies of pieces");
  if (!grid.copies.empty()) c.copy = run.fitted(grid.copies, MemoryCost{}, "copies in memory");
  for (const std::vector<Probe>& probes : grid.collectives) {
    const CollectiveCost inter = run.fitted(
        probes, CollectiveCost{probes.front().collective, LinkKind::Inter, 0, {}, {}, {}}, "threads of one process");
    CollectiveCost intra = inter;
    intra.link = LinkKind::Intra;
    c.collectives.push_back(inter);
    c.collectives.push_back(std::move(intra));
  }
  for (std::size_t a = 0; a < grid.kinds.size(); ++a)
    for (std::size_t b = a + 1; b < grid.kinds.size(); ++b)
      c.interference.push_back(run.pair(grid.kinds[a], grid.kinds[b]));
  return c;
}

void add_unmeasured(Calibration& measured, const Calibration& base) {
  measured.collectives.insert(measured.collectives.end(), base.collectives.begin(), base.collectives.end());
  measured.messages.insert(measured.messages.end(), base.messages.begin(), base.messages.end());
  for (const GemmCost& cost : base.gemms)
    if (std::ranges::find(measured.gemms, cost.dtype, &GemmCost::dtype) == measured.gemms.end())
      measured.gemms.push_back(cost);
  const auto known = [&](const Interference& pair) {
    return std::ranges::any_of(measured.interference, [&](const Interference& m) {
      return (m.a == pair.a && m.b == pair.b) || (m.a == pair.b && m.b == pair.a);
    });
  };
  for (const Interference& pair : base.interference)
    if (!known(pair)) measured.interference.push_back(pair);
}

}  // namespace dovetail::exec

// SPDX-License-Identifier: Apache-2.0
#include "exec/run/calibrate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "exec/run/probe.hpp"
#include "models/base/errors.hpp"
#include "models/base/fit.hpp"

namespace dovetail::exec {
namespace {

// A sample of which a thread waited a larger share for a core was disturbed: on a shared machine with two cores, real
// runs whose wall time was over 1.04 of their CPU time missed predictions that others met within 2 %.
constexpr double most_without_core = .04;
constexpr double least_speed = .01;  // that noise is left to show

// Tells whether a probe stands in for collectives, on a meter without them.
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

  Interference pair(const std::pair<InterferenceClass, Probe>& a, const std::pair<InterferenceClass, Probe>& b) {
    const Turns turns = in_turns({a.second, b.second});
    std::pair<double, double> speeds = speeds_beside({median(turns.alone[0]), median(turns.alone[1])},
                                                     {median(turns.together[0]), median(turns.together[1])});
    pairs_.push_back({a.second, b.second, speeds});
    report(turns);
    const auto [measured_a, measured_b] = speeds;
    const bool raised = raise_to_one(speeds);
    std::string source =
        fmt::format("{}; {} beside {}, {}", options_.where, name_of(a.second), name_of(b.second), at_once());
    const bool stand_in = stands_in(a) || stands_in(b);
    if (stand_in) source += "; it stands for an exchange, and copies within the device";
    if (raised) source += fmt::format("; measured {:.3f} and {:.3f}, raised to add up to 1", measured_a, measured_b);
    return {a.first,
            b.first,
            speeds.first,
            speeds.second,
            {stand_in ? Origin::Assumed : Origin::Measured, source, meter_.oversubscribed(2)}};
  }

  void warm_up(const Probe& probe) {
    if (options_.warm_up <= Seconds(0)) return;
    const std::array<Repeated, 1> work{Repeated{probe, repetitions(probe)}};
    for (Seconds worked; worked < options_.warm_up;) worked += meter_.run(work)[0].time;
  }

  // For its points alone. Three only where all pairs of them were measured before.
  void together(const std::vector<Probe>& probes) {
    const Turns turns = in_turns(probes);
    if (probes.size() == 2)
      pairs_.push_back({probes[0], probes[1],
                        speeds_beside({median(turns.alone[0]), median(turns.alone[1])},
                                      {median(turns.together[0]), median(turns.together[1])})});
    report(turns);
  }

  // For its point alone; `fitted`: to other sizes.
  void point(const Probe& probe, const Calibration& fitted) {
    options_.begin(name_of(probe));
    int undisturbed = 0;
    alone(probe, undisturbed, prediction(probe, fitted));
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

  Seconds alone(const Probe& probe, int& undisturbed, std::optional<Seconds> predicted = {}) {
    const std::array<Repeated, 1> work{Repeated{probe, repetitions(probe)}};
    samples_ = 0;
    std::vector<ClockReading> clocks;
    const auto step = [&] {
      const Elapsed elapsed = meter_.run(work)[0];
      ++samples_;
      clocks.push_back(elapsed.clock);
      if (elapsed.without_core <= most_without_core * elapsed.time) ++undisturbed;
      return elapsed.time / work[0].times;
    };
    const Measurement m = measure(step, options_.measure);
    if (probe.kind == ProbeKind::Collective) return m.median;
    DevicePoint point = point_of(probe);
    point.predicted = predicted;
    point.median = m.median;
    point.ci95_low = m.ci95_low;
    point.ci95_high = m.ci95_high;
    point.samples = std::ssize(m.samples);
    point.clock = median(clocks);
    options_.point(point);
    return m.median;
  }

  struct Turns {
    std::vector<Repeated> work;
    std::vector<std::vector<Seconds>> alone, together;  // by work, then sample
    std::vector<ClockReading> clocks;                   // of all that ran together
  };

  // Alone and together in turns, so that what else the machine does falls on all alike.
  Turns in_turns(const std::vector<Probe>& probes) {
    Turns turns;
    std::string names;
    for (const Probe& probe : probes) {
      names += (names.empty() ? "" : " beside ") + name_of(probe);
      turns.work.push_back({probe, repetitions(probe, options_.longer_pairs)});
    }
    options_.begin(names);
    turns.alone.resize(probes.size());
    turns.together.resize(probes.size());
    const auto step = [&] {
      for (std::size_t i = 0; i < probes.size(); ++i) {
        std::vector<Repeated> one = turns.work;
        for (std::size_t other = 0; other < one.size(); ++other)
          if (other != i) one[other].times = 0;
        turns.alone[i].push_back(meter_.run(one)[i].time);
      }
      const std::vector<Elapsed> all = meter_.run(turns.work);
      Seconds longest;
      for (std::size_t i = 0; i < probes.size(); ++i) {
        turns.together[i].push_back(all[i].time);
        turns.clocks.push_back(all[i].clock);
        longest = std::max(longest, all[i].time);
      }
      return longest;
    };
    measure(step, options_.measure);
    return turns;
  }

  // One point for each work: what it took beside the others, by the speed that it kept in each sample.
  void report(const Turns& turns) {
    const std::size_t works = turns.work.size(), samples = turns.together.front().size();
    std::vector<std::vector<double>> speeds(works);
    std::vector<std::vector<Seconds>> times(works);
    for (std::size_t sample = 0; sample < samples; ++sample) {
      const std::vector<double> kept = speeds_in(turns, sample);
      for (std::size_t i = 0; i < works; ++i)
        times[i].push_back(turns.alone[i][sample] / turns.work[i].times / std::max(kept[i], least_speed));
    }
    for (std::size_t i = 0; i < works; ++i) {
      if (turns.work[i].probe.kind == ProbeKind::Collective) continue;
      DevicePoint point = point_of(turns.work[i].probe);
      for (std::size_t other = 0; other < works; ++other)
        if (other != i) point.beside += (point.beside.empty() ? "" : " and ") + name_of(turns.work[other].probe);
      point.median = median(times[i]);
      std::tie(point.ci95_low, point.ci95_high) = bootstrap_median(times[i], options_.measure.seed);
      point.samples = static_cast<long>(samples);
      point.clock = median(turns.clocks);
      point.kept_speed = median(turns.alone[i]) / turns.work[i].times / point.median;
      options_.point(point);
    }
  }

  std::vector<double> speeds_in(const Turns& turns, std::size_t sample) const {
    const auto alone = [&](std::size_t i) { return turns.alone[i][sample]; };
    const auto together = [&](std::size_t i) { return turns.together[i][sample]; };
    if (turns.work.size() == 2) {
      const auto [a, b] = speeds_beside({alone(0), alone(1)}, {together(0), together(1)});
      return {a, b};
    }
    check(turns.work.size() == 3, "two or three kinds of work run together");
    const std::array<double, 3> kept =
        speeds_of_three({alone(0), alone(1), alone(2)}, {together(0), together(1), together(2)},
                        [&](std::size_t i, std::size_t j) { return speed(turns.work[i].probe, turns.work[j].probe); });
    return {kept.begin(), kept.end()};
  }

  // The speed of `a` beside `b`, as measured before.
  double speed(const Probe& a, const Probe& b) const {
    for (const MeasuredPair& pair : pairs_) {
      if (pair.a == a && pair.b == b) return pair.speeds.first;
      if (pair.a == b && pair.b == a) return pair.speeds.second;
    }
    throw InternalError("three kinds of work run together before two of them did");
  }

  struct MeasuredPair {
    Probe a, b;
    std::pair<double, double> speeds;
  };

  Meter& meter_;
  const CalibrateOptions& options_;
  int samples_ = 0;  // of the last point
  std::vector<MeasuredPair> pairs_;
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

std::optional<Seconds> prediction(const Probe& probe, const Calibration& fitted) {
  const auto by = [&](const auto& cost) { return cost.alpha + Seconds(probe.size() * cost.beta.value()); };
  switch (probe.kind) {
    case ProbeKind::Gemm:
      for (const GemmCost& cost : fitted.gemms)
        if (cost.dtype == probe.dtype) return by(cost);
      return {};
    case ProbeKind::StridedCopy:
      return by(probe.rows > 1 && fitted.strided_copy ? *fitted.strided_copy : fitted.memory);
    case ProbeKind::CopyToHost:
    case ProbeKind::CopyFromHost:
      return fitted.copy ? std::optional(by(*fitted.copy)) : std::nullopt;
    default:
      return {};
  }
}

std::array<double, 3> speeds_of_three(const std::array<Seconds, 3>& alone, const std::array<Seconds, 3>& together,
                                      const std::function<double(std::size_t, std::size_t)>& beside) {
  std::array<std::size_t, 3> order{0, 1, 2};
  std::ranges::sort(order, {}, [&](std::size_t i) { return together[i]; });
  const auto [first, second, last] = order;
  const Seconds all = together[first], two = together[second] - all, one = together[last] - together[second];
  std::array<double, 3> speeds{};
  speeds[first] = alone[first] / all;
  speeds[second] = (alone[second] - two * beside(second, last)) / all;
  speeds[last] = (alone[last] - two * beside(last, second) - one) / all;
  return speeds;
}

bool raise_to_one(std::pair<double, double>& speeds) {
  speeds = {std::clamp(speeds.first, least_speed, 1.0), std::clamp(speeds.second, least_speed, 1.0)};
  const double sum = speeds.first + speeds.second;
  if (sum >= 1) return false;
  speeds.first /= sum;
  speeds.second = 1 - speeds.first;
  return true;
}

Calibration calibrate(Meter& meter, const CalibrationGrid& grid, const CalibrateOptions& options) {
  Calibrator run(meter, options);
  Calibration c;
  run.warm_up(grid.gemms.front().back());
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
  for (const Probe& probe : options.shapes) run.point(probe, c);  // what was asked for comes before what may be cut off
  for (std::size_t a = 0; a < grid.kinds.size(); ++a)
    for (std::size_t b = a + 1; b < grid.kinds.size(); ++b)
      c.interference.push_back(run.pair(grid.kinds[a], grid.kinds[b]));
  for (const Probe& probe : grid.more) run.point(probe, c);
  for (const std::vector<Probe>& probes : grid.together) run.together(probes);
  return c;
}

void add_unmeasured(Calibration& measured, const Calibration& base) {
  measured.collectives.insert(measured.collectives.end(), base.collectives.begin(), base.collectives.end());
  measured.messages.insert(measured.messages.end(), base.messages.begin(), base.messages.end());
  for (const GemmCost& cost : base.gemms)
    if (const auto own = std::ranges::find(measured.gemms, cost.dtype, &GemmCost::dtype); own == measured.gemms.end())
      measured.gemms.push_back(cost);
    else
      take_outside(*own, cost.alpha, cost.beta);
  take_outside(measured.memory, base.memory.alpha, base.memory.beta);
  if (measured.strided_copy && base.strided_copy)
    take_outside(*measured.strided_copy, base.strided_copy->alpha, base.strided_copy->beta);
  if (measured.copy && base.copy) take_outside(*measured.copy, base.copy->alpha, base.copy->beta);
  if (!measured.l2_cache) measured.l2_cache = base.l2_cache;
  // An entry of three kinds goes with the speeds of their pairs.
  const auto known = [pairs = measured.interference](const Interference& entry) {
    return std::ranges::any_of(pairs,
                               [&](const Interference& m) { return has_kind(entry, m.a) && has_kind(entry, m.b); });
  };
  for (const Interference& entry : base.interference)
    if (!known(entry)) measured.interference.push_back(entry);
}

}  // namespace dovetail::exec

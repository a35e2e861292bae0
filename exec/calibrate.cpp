#include "exec/calibrate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/errors.hpp"
#include "models/fit.hpp"
#include "models/names.hpp"

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
      return "strided copy";
    case ProbeKind::HostCopy:
      return "host copy";
    case ProbeKind::Collective:
      return std::string(name_in(collective_names, p.collective));
  }
  throw InternalError("a probe of no kind");
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
    cost.provenance = {Origin::Measured, fmt::format("{}; {}, {} ranks at once", options_.where, what, meter_.ranks()),
                       disturbed, std::make_shared<const Fit>(std::move(fit.quality))};
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
    std::string source = fmt::format("{}; {} beside {}, {} ranks at once", options_.where, name_of(a.second),
                                     name_of(b.second), meter_.ranks());
    if (raised) source += fmt::format("; measured {:.3f} and {:.3f}, raised to add up to 1", measured_a, measured_b);
    return {a.first, b.first, speeds.first, speeds.second, {Origin::Measured, source, meter_.oversubscribed(2)}};
  }

 private:
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

// --- grids ---

std::vector<Probe> gemms(DType dtype, const std::vector<std::int64_t>& rows,
                         const std::vector<std::pair<std::int64_t, std::int64_t>>& shapes) {
  std::vector<Probe> probes;
  for (const auto& [inner, columns] : shapes)
    for (std::int64_t r : rows) probes.push_back({ProbeKind::Gemm, dtype, Collective::None, r, inner, columns});
  return probes;
}

std::vector<Probe> copies(std::initializer_list<ProbeKind> kinds, const std::vector<std::int64_t>& rows,
                          std::int64_t columns) {
  std::vector<Probe> probes;
  for (ProbeKind kind : kinds)
    for (std::int64_t r : rows) probes.push_back({kind, DType::Fp32, Collective::None, r, 0, columns});
  return probes;
}

std::vector<std::vector<Probe>> all_collectives(const std::vector<std::int64_t>& elements, int ranks) {
  std::vector<std::vector<Probe>> all;
  for (const auto& [name, collective] : collective_names) {
    if (collective == Collective::None) continue;
    all.emplace_back();
    for (std::int64_t n : elements)
      all.back().push_back({ProbeKind::Collective, DType::Fp32, collective, (n + ranks - 1) / ranks * ranks, 0, 1});
  }
  return all;
}

std::vector<std::int64_t> multiples(std::int64_t step, int last) {
  std::vector<std::int64_t> all;
  for (int i = 1; i <= last; ++i) all.push_back(step * i);
  return all;
}

// Ops of about a millisecond on a core.
std::vector<std::pair<InterferenceClass, Probe>> one_of_each_kind(int ranks) {
  constexpr std::int64_t elements = 1 << 18;
  const auto exchange = [&](Collective c) {
    return Probe{ProbeKind::Collective, DType::Fp32, c, (elements + ranks - 1) / ranks * ranks, 0, 1};
  };
  return {{InterferenceClass::Compute, {ProbeKind::Gemm, DType::Fp32, Collective::None, 256, 256, 256}},
          {InterferenceClass::Inter, exchange(Collective::AllToAll)},
          {InterferenceClass::Intra, exchange(Collective::AllGather)},
          {InterferenceClass::Copy, {ProbeKind::HostCopy, DType::Fp32, Collective::None, elements, 0, 1}}};
}

}  // namespace

double Probe::size() const {
  const auto bytes = static_cast<double>(rows * columns) * size_of(dtype).value();
  switch (kind) {
    case ProbeKind::Gemm:
      return 2.0 * static_cast<double>(rows) * static_cast<double>(inner) * static_cast<double>(columns);
    case ProbeKind::Encode:
    case ProbeKind::StridedCopy:
      return 2 * bytes;  // read and written
    case ProbeKind::Decode:
      return 3 * bytes;  // the residual too
    case ProbeKind::HostCopy:
    case ProbeKind::Collective:
      return bytes;
  }
  throw InternalError("a probe of no kind");
}

int CalibrationGrid::points() const {
  const std::size_t k = kinds.size();
  return static_cast<int>(gemms.size() + collectives.size() + (memory.empty() ? 0 : 1) + (strided.empty() ? 0 : 1) +
                          (copies.empty() ? 0 : 1) + (k < 2 ? 0 : k * (k - 1) / 2));
}

CalibrationGrid calibration_grid(GridName name, int ranks) {
  const bool quick = name == GridName::Quick, fsmoe = name == GridName::Fsmoe;
  CalibrationGrid grid;
  const std::vector<std::int64_t> rows = quick   ? std::vector<std::int64_t>{32, 128, 512}
                                         : fsmoe ? multiples(512, 12)
                                                 : std::vector<std::int64_t>{16, 32, 64, 128, 256, 512, 1024};
  const std::vector<std::pair<std::int64_t, std::int64_t>> shapes =
      quick   ? std::vector<std::pair<std::int64_t, std::int64_t>>{{128, 256}, {256, 128}}
      : fsmoe ? std::vector<std::pair<std::int64_t, std::int64_t>>{{1024, 1024}}
              : std::vector<std::pair<std::int64_t, std::int64_t>>{{128, 256}, {256, 128}, {512, 512}};
  grid.gemms.push_back(gemms(DType::Fp32, rows, shapes));
  if (!quick) grid.gemms.push_back(gemms(DType::Fp64, rows, shapes));
  const std::vector<std::int64_t> tokens = quick ? std::vector<std::int64_t>{128, 512, 2048}
                                                 : std::vector<std::int64_t>{64, 128, 256, 512, 1024, 2048, 4096};
  grid.memory = copies({ProbeKind::Encode, ProbeKind::Decode}, tokens, 128);
  grid.strided = copies({ProbeKind::StridedCopy}, tokens, 128);
  grid.copies = copies({ProbeKind::HostCopy}, tokens, 128);
  std::vector<std::int64_t> elements = fsmoe ? multiples(1 << 18, 24) : std::vector<std::int64_t>{};
  for (std::int64_t n = 1 << 12; !fsmoe && n <= 1 << 20; n *= quick ? 16 : 4) elements.push_back(n);
  grid.collectives = all_collectives(elements, ranks);
  grid.kinds = one_of_each_kind(ranks);
  return grid;
}

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

}  // namespace dovetail::exec

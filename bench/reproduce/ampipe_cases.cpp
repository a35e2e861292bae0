// AMPipe's speed-ups on four A10G: which of its cases fit the memory, and how much faster those get by chunks.
#include <fmt/format.h>

#include <algorithm>

#include "bench/reproduce/tables.hpp"

namespace dovetail::bench {
namespace {

struct Case {
  bool fits = false;
  double gain = 0;      // percent over the baseline
  double overhead = 0;  // of the compute stream's work by chunking, percent
};

double busy(const SystemResult& result, std::string_view stream) {
  double sum = 0;
  for (const StreamUse& use : result.metrics.streams)
    if (use.name == stream) sum += use.busy.value();
  return sum;
}

Case run_case(const Experiment& experiment, const System& baseline, const System& system) {
  const SystemResult base = run_system(experiment, baseline), chunked = run_system(experiment, system);
  return {base.feasible && chunked.feasible, 100 * (base.metrics.makespan / chunked.metrics.makespan - 1),
          100 * (busy(chunked, "compute") / busy(base, "compute") - 1)};
}

// Every model, sequence, batch and capacity factor of the settings.
std::vector<Case> all_cases(const JsonReader& settings, int layers, FilesRead& files) {
  const System baseline = load_system(settings.string("baseline"), files);
  const System system = load_system(settings.string("system"), files);
  std::vector<Case> cases;
  for (const std::string& model : read_strings(settings.at("models"))) {
    Experiment e = read_experiment(settings.at("experiment"), files,
                                   {"model=" + model, fmt::format("workload.layers={}", layers)});
    for (int sequence : read_integer_axis(settings.at("sequences")))
      for (int batch : read_integer_axis(settings.at("batches")))
        for (double factor : read_axis(settings.at("capacity_factors"))) {
          e.workload.sequence = sequence;
          e.workload.batch = batch;
          e.workload.capacity_factor = factor;
          cases.push_back(run_case(e, baseline, system));
        }
  }
  return cases;
}

}  // namespace

Recomputed ampipe_cases(const JsonReader& settings, FilesRead& files) {
  Recomputed result;
  for (int layers : read_integer_axis(settings.at("layers"))) {
    std::vector<double> gains;
    double overhead = 0;
    for (const Case& each : all_cases(settings, layers, files))
      if (each.fits) {
        gains.push_back(each.gain);
        overhead = std::max(overhead, each.overhead);
      }
    const auto put = [&](const char* what, double value) {
      result.values[fmt::format("{} layers: {}", layers, what)] = value;
    };
    put("cases that fit 24 GiB", static_cast<double>(gains.size()));
    put("mean gain", mean(gains));
    put("largest gain", gains.empty() ? 0 : std::ranges::max(gains));
    put("most work added by chunking", overhead);
  }
  return result;
}

}  // namespace dovetail::bench

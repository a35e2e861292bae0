#include "bench/micro/experiments.hpp"

#include <fmt/format.h>

#include "models/files/load.hpp"

namespace dovetail::bench {

namespace {

Experiment mixtral_on(const std::string& cluster, int layers) {
  ExperimentRequest request;
  request.cluster = cluster;
  request.model = "mixtral-8x7b";
  request.set = {fmt::format("workload.layers={}", layers)};
  FilesRead files;
  std::vector<std::string> notes;
  return load_experiment(request, files, notes);
}

}  // namespace

Experiment testbed_b(int layers, Overlap overlap) {
  Experiment e = mixtral_on("fsmoe-testbed-b", layers);
  e.overlap = overlap;
  return e;
}

Experiment h100s(int layers) {
  return mixtral_on("dgx-h100", layers);
}

}  // namespace dovetail::bench

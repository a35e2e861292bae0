// SPDX-License-Identifier: Apache-2.0
#include "bench/micro/experiments.hpp"

#include <fmt/format.h>

#include "models/files/load.hpp"

namespace dovetail::bench {

namespace {

Experiment mixtral_on(const std::string& cluster, int layers, Overlap overlap) {
  ExperimentRequest request;
  request.cluster = cluster;
  request.model = "mixtral-8x7b";
  request.set = {fmt::format("workload.layers={}", layers)};
  FilesRead files;
  std::vector<std::string> notes;
  Experiment e = load_experiment(request, files, notes);
  e.overlap = overlap;
  return e;
}

}  // namespace

Experiment testbed_b(int layers, Overlap overlap) {
  return mixtral_on("fsmoe-testbed-b", layers, overlap);
}

Experiment h100s(int layers, Overlap overlap) {
  return mixtral_on("dgx-h100", layers, overlap);
}

}  // namespace dovetail::bench

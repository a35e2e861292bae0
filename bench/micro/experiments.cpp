#include "bench/micro/experiments.hpp"

#include <fmt/format.h>

#include "models/files/load.hpp"

namespace dovetail::bench {

Experiment testbed_b(int layers) {
  ExperimentRequest request;
  request.cluster = "fsmoe-testbed-b";
  request.model = "mixtral-8x7b";
  request.set = {fmt::format("workload.layers={}", layers)};
  FilesRead files;
  std::vector<std::string> notes;
  return load_experiment(request, files, notes);
}

}  // namespace dovetail::bench

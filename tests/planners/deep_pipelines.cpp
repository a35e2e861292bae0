// SPDX-License-Identifier: Apache-2.0
#include "tests/planners/deep_pipelines.hpp"

#include "models/files/load.hpp"
#include "models/question/capacity.hpp"

namespace dovetail::test {

Experiment olmoe_in_stages(int stages, int samples) {
  constexpr int gpus = 32;
  ExperimentRequest request;
  request.cluster = "dgx-h100";
  request.nodes = gpus / 8;
  request.model = "olmoe-1b-7b";
  request.set = {R"(parallelism={"mp": 1, "esp": 1})", "workload.batch=1", "workload.sequence=4096"};
  FilesRead files;
  std::vector<std::string> notes;
  Experiment e = load_experiment(request, files, notes);
  e.parallelism = {.dp = gpus / stages, .mp = 1, .ep = gpus / stages, .esp = 1, .pp = stages, .edp = 1};
  e.workload.batch = samples;
  resolve_capacity(e);
  return e;
}

}  // namespace dovetail::test

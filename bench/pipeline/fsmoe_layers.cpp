// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/fsmoe_layers.hpp"

#include <array>
#include <string>

#include "models/base/errors.hpp"
#include "models/files/load.hpp"
#include "models/question/capacity.hpp"
#include "models/question/experiment_rules.hpp"

namespace dovetail::bench {
namespace {

Experiment base(char testbed) {
  ExperimentRequest request;
  request.cluster = std::string("fsmoe-testbed-") + testbed;
  request.model = "gpt2-xl-moe";
  request.set = {"workload.dtype=fp32", "workload.layers=1", "workload.top_k=2"};
  FilesRead files;
  std::vector<std::string> notes;
  Experiment e = load_experiment(request, files, notes);
  e.model.name = "fsmoe-layer";
  e.model.source = "FSMoE (ASPLOS 2025), Table 4";
  e.model.layers = 1;
  e.model.experts = e.cluster.nodes;
  return e;
}

void set_sizes(Model& model, int heads, int hidden, int ratio, ExpertKind kind) {
  model.attention.heads = model.attention.kv_heads = heads;
  model.attention.head_size = hidden / heads;
  model.hidden = hidden;
  model.expert_hidden = ratio * hidden;
  model.expert_kind = kind;
}

// The rest follows from the sizes.
Experiment completed(Experiment e) {
  e.parallelism = default_parallelism(e.cluster, e.model);
  resolve_capacity(e);
  validate(e);
  return e;
}

}  // namespace

std::vector<Experiment> fsmoe_layers(char testbed) {
  check(testbed == 'a' || testbed == 'b', "FSMoE has testbeds a and b");
  Experiment e = base(testbed);
  const std::array sequences = testbed == 'a' ? std::array{512, 1024, 2048} : std::array{256, 512, 1024};
  std::vector<Experiment> layers;
  for (int batch : {1, 2, 4})
    for (int heads : {8, 16, 32})
      for (int sequence : sequences)
        for (int hidden : {1024, 2048, 4096})
          for (int ratio : {2, 3, 4})
            for (double capacity_factor : {1.2, 2.4, 0.})
              for (ExpertKind kind : {ExpertKind::Ffn, ExpertKind::Gated}) {
                e.workload.batch = batch;
                e.workload.sequence = sequence;
                e.workload.capacity_factor = capacity_factor;
                set_sizes(e.model, heads, hidden, ratio, kind);
                layers.push_back(completed(e));
              }
  return layers;
}

}  // namespace dovetail::bench

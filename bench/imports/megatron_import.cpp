// SPDX-License-Identifier: Apache-2.0
#include "bench/imports/megatron_import.hpp"

#include <fmt/format.h>

#include "bench/imports/imported_parts.hpp"
#include "bench/imports/megatron_model.hpp"
#include "bench/imports/megatron_plan.hpp"
#include "bench/imports/megatron_settings.hpp"
#include "models/files/experiment_json.hpp"
#include "models/files/load.hpp"

namespace dovetail::bench {
namespace {

Model given_model(const MegatronSettings& settings, const ImportRequest& request, int tensor_ranks, Unsaid& unsaid) {
  if (request.model.empty()) return megatron_model(settings, request, tensor_ranks, unsaid);
  FilesRead files;
  if (settings.given("num_layers"))
    unsaid.notes.push_back(
        fmt::format("the model is {}; what the arguments say of a model is left out", request.model));
  return load_model(request.model, files);
}

}  // namespace

ImportedRun import_megatron(const GivenRun& run, const ImportRequest& request) {
  ImportedRun imported{.read = run.read, .experiment = {}, .unsaid = {}};
  const MegatronSettings settings(run, imported.unsaid);
  const int tensor_ranks = settings.whole("tensor_model_parallel_size");
  const Model model = given_model(settings, request, tensor_ranks, imported.unsaid);
  const MegatronGroups groups = megatron_groups(settings, model);
  const Plan plan = megatron_plan(settings, model, groups, imported.unsaid);
  const ImportedRanks ranks = imported_ranks(request, run.nodes, run.ranks_a_node);
  imported.experiment["model"] = request.model.empty() ? to_json(model) : nlohmann::ordered_json(request.model);
  imported.experiment["framework"] = framework_with("megatron_lm", megatron_options(settings, model));
  imported.experiment["workload"] = megatron_workload(settings, model);
  ImportedSizes sizes{.mp = groups.tensor,
                      .pp = groups.pipeline,
                      .ep = groups.experts,
                      .esp = groups.expert_tensor,
                      .sequence_parallel = groups.sequence_parallel,
                      .layout = groups.layout};
  sizes.micro_batch = settings.whole("micro_batch_size");
  sizes.global_batch = settings.whole("global_batch_size");
  add_sizes(ranks, sizes, model, plan, request.source, imported.experiment, imported.unsaid);
  require_experiment(imported, request.source);
  return imported;
}

}  // namespace dovetail::bench

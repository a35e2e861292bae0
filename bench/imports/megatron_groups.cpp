// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdint>

#include "bench/imports/megatron_plan.hpp"
#include "models/base/errors.hpp"
#include "models/question/pipeline_layout.hpp"

namespace dovetail::bench {
namespace {

constexpr std::string_view first_stage = "decoder_first_pipeline_num_layers";
constexpr std::string_view last_stage = "decoder_last_pipeline_num_layers";

// "Et*7|t*8|t*7L"
std::string layout_of(const std::vector<int>& layers, int mtp_layers) {
  std::string text = "E";
  for (std::size_t stage = 0; stage < layers.size(); ++stage)
    text += fmt::format("{}t*{}", stage == 0 ? "" : "|", layers[stage]);
  if (mtp_layers > 0) text += fmt::format("m*{}", mtp_layers);
  return text + "L";
}

// Layers of each stage where the first and the last one have numbers of their own; empty: equal runs.
std::vector<int> unequal_stages(const MegatronSettings& s, const Model& model, int stages) {
  const int embedding = s.on("account_for_embedding_in_pipeline_split") ? 1 : 0;
  const int loss = s.on("account_for_loss_in_pipeline_split") ? 1 : 0;
  const auto first = s.whole_if_given(first_stage), last = s.whole_if_given(last_stage);
  if (stages == 1 || (!first && !last && embedding + loss == 0)) return {};
  if (embedding + loss > 0) {
    if ((model.layers + embedding + loss) % stages != 0)
      s.fail("num_layers", fmt::format("{} layers and {} of the ends do not divide over {} stages", model.layers,
                                       embedding + loss, stages));
    std::vector<int> layers(static_cast<std::size_t>(stages), (model.layers + embedding + loss) / stages);
    layers.front() -= embedding;
    layers.back() -= loss;
    return layers;
  }
  const int others = stages - (first ? 1 : 0) - (last ? 1 : 0),
            left = model.layers - first.value_or(0) - last.value_or(0);
  const std::string_view named = first ? first_stage : last_stage;
  if (left < 0 || (others == 0 && left != 0) || (others > 0 && left % others != 0))
    s.fail(named, fmt::format("leaves {} layers to the {} other stages, which they do not divide over", left, others));
  std::vector<int> layers(static_cast<std::size_t>(stages), others > 0 ? left / others : 0);
  if (first) layers.front() = *first;
  if (last) layers.back() = *last;
  return layers;
}

// Virtual stages by their number, or by the layers of each.
int stages_of_rank(const MegatronSettings& s, const Model& model, int stages, bool equal) {
  const auto layers = s.whole_if_given("num_layers_per_virtual_pipeline_stage");
  const auto number = s.whole_if_given("num_virtual_stages_per_pipeline_rank");
  if (layers && number)
    s.fail("num_virtual_stages_per_pipeline_rank",
           "given beside --num-layers-per-virtual-pipeline-stage; expected one of them");
  if (number) return *number;
  if (!layers) return 1;
  if (!equal || model.layers % (std::int64_t{stages} * *layers) != 0)
    s.fail("num_layers_per_virtual_pipeline_stage",
           fmt::format("{} layers do not divide over {} stages of {}", model.layers, stages, *layers));
  return model.layers / stages / *layers;
}

void read_layout(const MegatronSettings& s, MegatronGroups& groups) {
  groups.layout = s.word("pipeline_model_parallel_layout");
  try {
    const auto stages = static_cast<int>(parse_pipeline_layout(groups.layout).size());
    if (stages % groups.pipeline != 0)
      s.fail("pipeline_model_parallel_layout",
             fmt::format("{} stages do not divide over {} ranks", stages, groups.pipeline));
    groups.virtual_stages = stages / groups.pipeline;
  } catch (const InputError& error) {
    if (error.where().line > 0) throw;
    s.fail("pipeline_model_parallel_layout", error.message());
  }
}

void require_divides(const MegatronSettings& s, std::string_view name, int size, int whole, std::string_view what) {
  if (size > 0 && whole % size != 0) s.fail(name, fmt::format("{} does not divide {} {}", size, whole, what));
}

}  // namespace

MegatronGroups megatron_groups(const MegatronSettings& s, const Model& model) {
  MegatronGroups groups;
  groups.tensor = s.whole("tensor_model_parallel_size");
  groups.pipeline = s.whole("pipeline_model_parallel_size");
  groups.sequence_parallel = s.on("sequence_parallel");
  if (!model.dense() && groups.tensor > 1 && !groups.sequence_parallel)
    s.fail("tensor_model_parallel_size", "Megatron-LM trains experts beside it with --sequence-parallel alone");
  if (!model.dense()) {
    groups.experts = s.whole("expert_model_parallel_size");
    groups.expert_tensor = s.whole_if_given("expert_tensor_parallel_size").value_or(groups.tensor);
    require_divides(s, "expert_model_parallel_size", groups.experts, model.experts, "experts");
  }
  if (groups.pipeline > model.layers)
    s.fail("pipeline_model_parallel_size", fmt::format("{} stages for {} layers", groups.pipeline, model.layers));
  if (s.given("pipeline_model_parallel_layout")) {
    read_layout(s, groups);
    return groups;
  }
  const std::vector<int> unequal = unequal_stages(s, model, groups.pipeline);
  groups.virtual_stages = stages_of_rank(s, model, groups.pipeline, unequal.empty());
  if (groups.pipeline == 1 && groups.virtual_stages > 1) {
    s.unsaid("num_virtual_stages_per_pipeline_rank", "one stage has no virtual ones");
    groups.virtual_stages = 1;
  }
  if (unequal.empty()) {
    if (model.layers % (std::int64_t{groups.pipeline} * groups.virtual_stages) != 0)
      s.fail("num_layers", fmt::format("{} layers do not divide over {} stages of {} virtual ones", model.layers,
                                       groups.pipeline, groups.virtual_stages));
  } else if (groups.virtual_stages > 1) {
    s.unsaid(s.given(first_stage) ? first_stage : last_stage, "with virtual stages, each has as many layers as others");
  } else {
    groups.layout = layout_of(unequal, model.mtp_layers);
  }
  return groups;
}

}  // namespace dovetail::bench

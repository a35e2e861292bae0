// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/host_scale.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/cli/option_values.hpp"
#include "bench/pipeline/hardware_notes.hpp"
#include "bench/pipeline/notes.hpp"
#include "exec/host/host_run.hpp"
#include "models/price/calibration.hpp"

namespace dovetail::bench {

void add_scale_options(CLI::App& app, const char* group, exec::HostScale& scale) {
  constexpr int most = 1 << 20;
  add_integer(app,
              {"--ranks", "COUNT",
               "number of ranks, even; they stand for two nodes with half of them each, or for two nodes in each "
               "pipeline stage "
               "[4]",
               group},
              scale.ranks, 2, 1024);
  add_integer(
      app,
      {"--rank-nodes", "COUNT", "nodes that the ranks stand for, in each pipeline stage; it divides them [2]", group},
      scale.nodes, 1, 1024);
  add_integer(app, {"--layers", "COUNT", "number of layers [1]", group}, scale.layers, 1, 1000);
  add_integer(app, {"--experts", "COUNT", "experts in each layer [as many as ranks]", group}, scale.experts, 1, most);
  add_integer(app, {"--hidden", "COUNT", "elements of a token [128]", group}, scale.hidden, 1, most);
  add_integer(app, {"--expert-hidden", "COUNT", "hidden elements of an expert [256]", group}, scale.expert_hidden, 1,
              most);
  add_integer(
      app,
      {"--head-size", "COUNT", "elements of an attention head; there are as many heads as fill --hidden [32]", group},
      scale.head_size, 1, most);
  add_integer(app, {"--tokens", "COUNT", "tokens of each rank [512]", group}, scale.tokens_per_rank, 1, most);
}

void scale_down(Question& question, const exec::HostScale& scale, int seed, bool on_gpu) {
  const DType dtype = question.experiment.workload.dtype;
  Experiment big = question.experiment;
  if (question.repeats_for_system) big.parallelism.sequence_parallel.reset();  // the small one has groups of its own
  question.experiment = exec::scaled_for_host(big, scale);
  question.notes.clear();  // they were about the big one
  add_repeated_tokens(question);
  if (on_gpu) question.experiment.workload.dtype = dtype;
  if (on_gpu && exec::pad_for_device(question.experiment)) question.notes.emplace_back(exec::padded_for_device);
  exec::resolve_routed_capacity(question.experiment, static_cast<std::uint64_t>(seed));
  const Experiment& e = question.experiment;
  question.notes.push_back(fmt::format(
      "scaled down to this machine and planned again: {} ranks stand for {} node{} x {} GPUs, {} layer{}, {}, "
      "hidden {} and {}, {} attention heads of {}, {} tokens per rank",
      scale.ranks, e.cluster.nodes, e.cluster.nodes == 1 ? "" : "s", e.cluster.gpus_per_node, e.workload.layers,
      e.workload.layers == 1 ? "" : "s", e.model.dense() ? "no experts" : fmt::format("{} experts", e.model.experts),
      e.model.hidden, e.model.dense() ? e.model.dense_hidden : e.model.expert_hidden, e.model.attention.heads,
      e.model.attention.head_size, scale.tokens_per_rank));
  const auto of_groups = [](const std::string& set) { return set.starts_with("parallelism."); };
  if (std::ranges::any_of(question.request.set, of_groups))
    question.notes.push_back(fmt::format(
        "groups of a run follow its ranks: mp and esp are 1 where they were 1, else the {} ranks of a node, "
        "and dp {}, ep {} and edp {} are what is left",
        e.cluster.gpus_per_node, e.parallelism.dp, e.parallelism.ep, e.parallelism.edp));
  add_run_differences(big, question.notes);
  question.notes.emplace_back(
      "ops of a run are predicted at, and held to, the times that they take alone: overlap is ideal");
  if (big.calibration->host)
    question.notes.push_back(fmt::format(
        "{}: the host's time of a launch is left out, since a run has a host of its own", big.calibration->name));
  add_message_sizes(question);
  add_routing(e, question.notes);
  add_assumptions(e, question.notes);
  add_stage_transfers(e, question.notes);
  add_hardware(big, {question.request, question.files, ""}, question.notes);
}

}  // namespace dovetail::bench

// SPDX-License-Identifier: Apache-2.0
// Experiments without experts, with latent attention, and with layers of multi-token prediction.
#pragma once
#include <string>

#include "models/question/experiment.hpp"

namespace dovetail::test {

// The experiment with layers that are all dense, as wide as its experts were over all ranks that shared one. These are
// not built with multi-token prediction yet.
inline Experiment without_experts(Experiment e) {
  Model& m = e.model;
  m.first_dense = m.layers;
  m.dense_hidden = m.expert_hidden * e.parallelism.mp;
  m.experts = m.top_k = m.expert_hidden = 0;
  m.shared_experts = {};
  m.router = {};
  m.expert_profile = m.gate_profile = {};
  e.workload.top_k = 0;
  e.workload.gate = {};
  e.workload.routing = {};
  e.workload.capacity_rows = 0;
  m.mtp_layers = e.workload.mtp_layers = 0;
  std::erase(e.parallelism.pipeline_layout, 'm');
  e.parallelism.ep = e.parallelism.esp = 1;
  e.parallelism.edp = e.parallelism.stage_ranks();
  return e;
}

// The same number of heads, with sizes of which no two are equal. q_rank 0: queries are made straight from the input.
inline Experiment with_latent_attention(Experiment e, int q_rank) {
  const int heads = e.model.attention.heads;
  e.model.attention = {.heads = heads,
                       .kv_heads = heads,
                       .head_size = 3 + 2,
                       .kind = AttentionKind::Latent,
                       .q_rank = q_rank,
                       .kv_rank = 6,
                       .nope_size = 3,
                       .rope_size = 2,
                       .value_size = 4};
  return e;
}

// A whole model with so many layers more, which a layout has before the output head (L).
inline Experiment with_predictions(Experiment e, int layers) {
  e.workload.extent = Extent::Model;
  e.model.mtp_layers = e.workload.mtp_layers = layers;
  std::string& layout = e.parallelism.pipeline_layout;
  std::erase(layout, 'm');
  if (!layout.empty()) layout.insert(layout.size() - 1, static_cast<std::size_t>(layers), 'm');
  return e;
}

}  // namespace dovetail::test

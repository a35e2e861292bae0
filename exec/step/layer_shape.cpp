// SPDX-License-Identifier: Apache-2.0
#include "exec/step/layer_shape.hpp"

#include "models/base/errors.hpp"
#include "models/question/extension_sizes.hpp"

namespace dovetail::exec {

void require_executable(const Experiment& e) {
  const auto require = [](bool condition, const char* pointer, const char* why) {
    if (!condition) throw InputError(Location{"", 0, 0, pointer}, why);
  };
  const Attention& a = e.model.attention;
  const bool latent = a.kind == AttentionKind::Latent;
  require(e.model.recurrence.layers == 0, "/model/recurrence", "recurrences are simulated, not executed yet");
  require(e.model.expert_input == 0, "/model/expert_input",
          "experts between projections are simulated, not executed yet");
  require(a.gate == OutputGate::None, "/model/attention/gate",
          "gates of attention's output are simulated, not executed yet");
  require(latent || a.value_size == 0, "/model/attention/value_size",
          "values of another size than keys are simulated, not executed yet");
  require(!a.shared_values, "/model/attention/shared_values",
          "keys that are values too are simulated, not executed yet");
  require(a.windowed.heads == 0, "/model/attention/windowed",
          "layers with other heads are simulated, not executed yet");
  require(a.windows != Windows::Chosen, "/model/attention/windows",
          "attention to chosen positions is simulated, not executed yet");
  require(!e.workload.whole_layers() || (latent ? a.rope_size : a.head_size) % 2 == 0,
          latent ? "/model/attention/rope_size" : "/model/attention/head_size",
          "rotary positions turn pairs of elements; expected an even size");
  require(e.workload.attention == AttentionKernel::Flash, "/workload/attention",
          "eager attention is simulated, not executed yet: executors keep no probabilities");
  require(e.parallelism.mp <= e.model.attention.kv_heads, "/parallelism/mp",
          "more ranks than key/value heads, which these repeat, are simulated, not executed yet");
  require(e.workload.causal, "/workload/causal", "attention without a mask is simulated, not executed yet");
  require(!e.workload.other_products(), "/workload/products",
          "products in another format than workload.dtype are simulated, not executed yet");
}

LayerShape with_numbers(LayerShape layer) {
  layer.hidden = 1;
  return layer;
}

LayerShape ffn_shape(const LayerShape& layer, std::int64_t parameters) {
  LayerShape s = layer;
  s.local_experts = s.row_copies = 1;
  s.placement = {};
  s.shard = (parameters - layer.dense_parameters()) / ((layer.gated ? 3 : 2) * layer.hidden);
  return s;
}

LayerShape layer_shape(const Experiment& e) {
  require_executable(e);
  const LayerVolumes v = layer_volumes(e);
  LayerShape s;
  s.samples = e.workload.batch;
  s.sequence = e.workload.sequence;
  s.rank_tokens = s.tokens = v.tokens;
  s.hidden = v.hidden;
  s.heads = v.query_heads;
  s.head_size = e.model.attention.head_size;
  if (const Attention& a = e.model.attention; a.kind == AttentionKind::Latent) {
    s.value_size = a.value_size;
    s.latent = {a.q_rank, a.kv_rank, a.nope_size, a.rope_size};
  } else if (v.query_key_normed > 0) {
    s.qk_norm = a.qk_norm;
  }
  s.rotary = e.workload.whole_layers();
  s.kv_heads = v.key_value_width / s.head_size;
  s.all_heads = e.model.attention.heads;
  s.all_kv_heads = e.model.attention.kv_heads;
  s.experts = v.experts;
  s.local_experts = v.local_experts;
  s.row_copies = v.peers * v.esp;
  s.shard = v.hidden_shard;
  s.top_k = e.workload.top_k;
  s.capacity = v.capacity;
  s.gate = e.workload.gate;
  s.projection = v.projection;
  s.router_parameters = v.router_parameters;
  s.gated = e.model.expert_kind == ExpertKind::Gated;
  s.extensions = e.extensions;
  s.gate_sizes = gate_sizes(e);
  s.expert_sizes = expert_sizes(e);
  s.custom_parameters = v.custom_parameters;
  s.custom_kept = v.custom_kept;
  return s;
}

LayerShape layer_shape(const Experiment& e, const Schedule& schedule, int rank) {
  LayerShape s = layer_shape(e);
  s.placement = row_placement(e, schedule, rank);
  return s;
}

LayerShape part_shape(const LayerShape& whole, const TokenPart& part) {
  LayerShape s = whole;
  s.tokens = part.tokens.size();
  s.capacity = part.slots.size();
  s.first_slot = part.slots.first;
  return s;
}

}  // namespace dovetail::exec

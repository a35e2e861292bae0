#include "exec/layer_shape.hpp"

#include "models/volumes.hpp"

namespace dovetail::exec {

LayerShape layer_shape(const Experiment& e) {
  const LayerVolumes v = layer_volumes(e);
  LayerShape s;
  s.samples = e.workload.batch;
  s.sequence = e.workload.sequence;
  s.tokens = v.tokens;
  s.hidden = v.hidden;
  s.heads = v.query_heads;
  s.head_size = e.model.attention.head_size;
  s.kv_heads = v.key_value_width / s.head_size;
  s.experts = v.experts;
  s.local_experts = v.local_experts;
  s.row_copies = v.row_copies;
  s.shard = v.hidden_shard;
  s.top_k = e.workload.top_k;
  s.capacity = v.capacity;
  s.gate = e.workload.gate;
  s.projection = v.projection;
  s.router_parameters = v.router_parameters;
  s.gated = e.model.expert_kind == ExpertKind::Gated;
  return s;
}

}  // namespace dovetail::exec

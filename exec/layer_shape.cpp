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
  s.row_copies = v.peers * v.esp;
  s.shard = v.hidden_shard;
  s.top_k = e.workload.top_k;
  s.capacity = v.capacity;
  s.gated = e.model.expert_kind == ExpertKind::Gated;
  return s;
}

LayerShape layer_shape(const Experiment& e, const Schedule& schedule, int rank) {
  LayerShape s = layer_shape(e);
  s.placement = row_placement(e, schedule, rank);
  return s;
}

}  // namespace dovetail::exec

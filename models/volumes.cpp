#include "models/volumes.hpp"

#include <cmath>

namespace dovetail {

Flops LayerVolumes::expert_flops(std::int64_t rows) const {
  return Flops(2 * static_cast<double>(rows) * static_cast<double>(worked_parameters()));
}

LayerVolumes layer_volumes(const Experiment& e) {
  const Model& m = e.model;
  const Parallelism& p = e.parallelism;
  LayerVolumes v;
  v.sequence_tokens = std::int64_t{e.workload.batch} * e.workload.sequence;
  v.tokens = v.sequence_tokens / p.mp;
  // A capacity of, say, 153.60000000000002 rows is 154, but 154.00000000000003 is 154 too.
  const double rows =
      e.workload.top_k * e.workload.capacity_factor * static_cast<double>(v.tokens) / static_cast<double>(m.experts);
  v.capacity = static_cast<std::int64_t>(std::ceil(rows * (1 - 1e-12)));
  v.experts = m.experts;
  v.local_experts = m.experts / p.ep;
  v.hidden = m.hidden;
  v.hidden_shard = m.expert_hidden / p.esp;
  v.peers = p.ep;
  v.esp = p.esp;
  v.dispatched_experts = v.local_experts;
  v.expert_gemms = m.expert_gemms();
  const int key_value_heads = (m.attention.kv_heads + p.mp - 1) / p.mp;
  v.query_heads = std::int64_t{key_value_heads} * (m.attention.heads / m.attention.kv_heads);
  v.query_width = v.query_heads * m.attention.head_size;
  v.key_value_width = std::int64_t{key_value_heads} * m.attention.head_size;
  v.dense_parameters = v.hidden * (2 * v.query_width + 2 * v.key_value_width);
  v.router_parameters = v.hidden * v.experts;
  v.expert_parameters = v.expert_gemms * v.hidden * v.hidden_shard * v.local_experts;
  const auto tokens = static_cast<double>(v.sequence_tokens);
  v.projection_flops = Flops(2 * tokens * static_cast<double>(v.dense_parameters));
  v.attention_score_flops = Flops(4 * tokens * e.workload.sequence * static_cast<double>(v.query_width) / 2);
  return v;
}

RowRange chunk_rows(std::int64_t capacity, int degree, int chunk) {
  return {capacity * chunk / degree, capacity * (chunk + 1) / degree};
}

}  // namespace dovetail

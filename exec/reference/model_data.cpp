#include "exec/reference/model_data.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "exec/host/layer_shape.hpp"
#include "models/question/capacity.hpp"
#include "models/question/volumes.hpp"

namespace dovetail::exec {
namespace {

std::size_t count(std::int64_t a, std::int64_t b, std::int64_t c = 1) {
  return static_cast<std::size_t>(a * b * c);
}

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : engine_(seed) {}
  void fill(Values& values, double deviation) {
    for (double& x : values) x = static_cast<float>(deviation * normal_(engine_));
  }

 private:
  std::mt19937_64 engine_;
  std::normal_distribution<double> normal_;
};

// Appends the block of rows [row, row + rows) and columns [col, col + cols) of a matrix (height, width) that starts at
// `offset`. What lies outside of the matrix is 0: heads that pad a rank's share are zero heads.
void append_block(Values& to, const Values& from, std::int64_t offset, std::int64_t height, std::int64_t width,
                  RowRange rows, RowRange cols) {
  const std::int64_t first_col = std::min(cols.first, width), last_col = std::min(cols.last, width);
  for (std::int64_t i = rows.first; i < rows.last; ++i) {
    const auto begin = to.size();
    const auto row = from.begin() + offset + i * width;
    if (i < height) to.insert(to.end(), row + first_col, row + last_col);
    to.resize(begin + static_cast<std::size_t>(cols.size()));
  }
}

int rank_in_group(const Parallelism& parallelism, GroupKind kind, int rank) {
  const std::vector<int> members = group_members(parallelism, kind, rank);
  for (std::size_t i = 0; i < members.size(); ++i)
    if (members[i] == rank) return static_cast<int>(i);
  return 0;
}

}  // namespace

LayerWeights zero_weights(const Experiment& e, int layer) {
  const Model& m = e.model;
  const std::int64_t q = std::int64_t{m.attention.heads} * m.attention.head_size;
  const std::int64_t k = std::int64_t{m.attention.kv_heads} * m.attention.head_size;
  LayerWeights w;
  w.query.resize(count(m.hidden, q));
  w.key.resize(count(m.hidden, k));
  w.value.resize(count(m.hidden, k));
  w.output.resize(count(q, m.hidden));
  if (m.is_moe(layer)) {
    w.router.resize(static_cast<std::size_t>(layer_shape(e).router_parameters));
    w.w1.resize(count(m.experts, m.hidden, m.expert_hidden));
    w.w2.resize(w.w1.size());
  }
  w.dense_w1.resize(count(m.hidden, m.ffn_hidden(layer)));
  w.dense_w2.resize(w.dense_w1.size());
  if (m.expert_kind == ExpertKind::Gated) {
    w.w3.resize(w.w1.size());
    w.dense_w3.resize(w.dense_w1.size());
  }
  return w;
}

ModelData random_model_data(const Experiment& e, std::uint64_t seed, int micro_batches) {
  const Experiment part = one_micro_batch(e, micro_batches);
  const Model& m = e.model;
  Generator random(seed);
  const double narrow = 1 / std::sqrt(m.hidden), wide = 1 / std::sqrt(m.expert_hidden);
  const double context = 1 / std::sqrt(m.attention.heads * m.attention.head_size);
  ModelData data;
  for (int layer = 0; layer < e.workload.layers; ++layer) {
    LayerWeights w = zero_weights(part, layer);
    for (Values* values : {&w.query, &w.key, &w.value, &w.router, &w.w1, &w.w3, &w.dense_w1, &w.dense_w3})
      random.fill(*values, narrow);
    // Half as large: activations that grew over layers without normalisation would cost digits.
    random.fill(w.output, context / 2);
    random.fill(w.w2, wide / 2);
    random.fill(w.dense_w2, .5 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, m.ffn_hidden(layer)))));
    // Log of the inverse temperature: X-MoE starts at .07, Tutel at .5.
    if (e.workload.gate.cosine() && m.is_moe(layer))
      w.router.back() = static_cast<float>(std::log(1 / (e.workload.gate.kind == GateKind::XMoe ? .07 : .5)));
    data.layers.push_back(std::move(w));
  }
  data.input.resize(count(e.parallelism.stage_ranks(), layer_volumes(e).tokens, m.hidden));
  data.output_gradient.resize(data.input.size());
  random.fill(data.input, 1);
  random.fill(data.output_gradient, 1);
  return data;
}

Values dense_shard(const Experiment& e, const LayerWeights& w, int rank) {
  const Model& m = e.model;
  const LayerVolumes v = layer_volumes(e);
  const std::int64_t all_queries = std::int64_t{m.attention.heads} * m.attention.head_size;
  const std::int64_t all_keys = std::int64_t{m.attention.kv_heads} * m.attention.head_size;
  const int part = rank_in_group(e.parallelism, GroupKind::Mp, rank);
  const RowRange all{0, m.hidden}, q{part * v.query_width, (part + 1) * v.query_width},
      k{part * v.key_value_width, (part + 1) * v.key_value_width};
  Values shard;
  append_block(shard, w.query, 0, m.hidden, all_queries, all, q);
  append_block(shard, w.key, 0, m.hidden, all_keys, all, k);
  append_block(shard, w.value, 0, m.hidden, all_keys, all, k);
  append_block(shard, w.output, 0, all_queries, m.hidden, q, all);
  const auto ffn = static_cast<std::int64_t>(w.dense_w1.size()) / m.hidden, share = ffn / e.parallelism.mp;
  const RowRange f{part * share, (part + 1) * share};
  append_block(shard, w.dense_w1, 0, m.hidden, ffn, all, f);
  append_block(shard, w.dense_w2, 0, ffn, m.hidden, f, all);
  if (!w.dense_w3.empty()) append_block(shard, w.dense_w3, 0, m.hidden, ffn, all, f);
  return shard;
}

Values expert_shard(const Experiment& e, const LayerWeights& w, int rank) {
  const Model& m = e.model;
  const Parallelism& p = e.parallelism;
  const std::int64_t here = m.experts / p.ep, width = m.expert_hidden / p.esp;
  const std::int64_t first = rank_in_group(p, GroupKind::Ep, rank) * here;
  const std::int64_t part = rank_in_group(p, GroupKind::Esp, rank);
  const RowRange all{0, m.hidden}, shard_of_hidden{part * width, (part + 1) * width};
  Values shard;
  for (std::int64_t expert = first; expert < first + here; ++expert) {
    const std::int64_t offset = expert * m.hidden * m.expert_hidden;
    append_block(shard, w.w1, offset, m.hidden, m.expert_hidden, all, shard_of_hidden);
    append_block(shard, w.w2, offset, m.expert_hidden, m.hidden, shard_of_hidden, all);
    if (!w.w3.empty()) append_block(shard, w.w3, offset, m.hidden, m.expert_hidden, all, shard_of_hidden);
  }
  return shard;
}

}  // namespace dovetail::exec

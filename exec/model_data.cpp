#include "exec/model_data.hpp"

#include <cmath>
#include <random>

#include "models/volumes.hpp"

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

// Appends the block of rows [row, row + rows) and columns [col, col + cols) of a matrix with `width` columns.
void append_block(Values& to, const Values& from, std::int64_t offset, std::int64_t width, std::int64_t row,
                  std::int64_t rows, std::int64_t col, std::int64_t cols) {
  for (std::int64_t i = row; i < row + rows; ++i) {
    const auto first = from.begin() + offset + i * width + col;
    to.insert(to.end(), first, first + cols);
  }
}

int rank_in_group(const Parallelism& parallelism, GroupKind kind, int rank) {
  const std::vector<int> members = group_members(parallelism, kind, rank);
  for (std::size_t i = 0; i < members.size(); ++i)
    if (members[i] == rank) return static_cast<int>(i);
  return 0;
}

}  // namespace

LayerWeights zero_weights(const Model& m) {
  const std::int64_t q = std::int64_t{m.attention.heads} * m.attention.head_size;
  const std::int64_t k = std::int64_t{m.attention.kv_heads} * m.attention.head_size;
  LayerWeights w;
  w.query.resize(count(m.hidden, q));
  w.key.resize(count(m.hidden, k));
  w.value.resize(count(m.hidden, k));
  w.output.resize(count(q, m.hidden));
  w.router.resize(count(m.hidden, m.experts));
  w.w1.resize(count(m.experts, m.hidden, m.expert_hidden));
  w.w2.resize(count(m.experts, m.hidden, m.expert_hidden));
  if (m.expert_kind == ExpertKind::Gated) w.w3.resize(w.w1.size());
  return w;
}

ModelData random_model_data(const Experiment& e, std::uint64_t seed) {
  const Model& m = e.model;
  Generator random(seed);
  const double narrow = 1 / std::sqrt(m.hidden), wide = 1 / std::sqrt(m.expert_hidden);
  const double context = 1 / std::sqrt(m.attention.heads * m.attention.head_size);
  ModelData data;
  for (int layer = 0; layer < e.workload.layers; ++layer) {
    LayerWeights w = zero_weights(m);
    for (Values* values : {&w.query, &w.key, &w.value, &w.router, &w.w1, &w.w3}) random.fill(*values, narrow);
    // Half as large: activations that grew over layers without normalisation would cost digits.
    random.fill(w.output, context / 2);
    random.fill(w.w2, wide / 2);
    data.layers.push_back(std::move(w));
  }
  data.input.resize(count(e.cluster.gpus(), layer_volumes(e).tokens, m.hidden));
  data.output_gradient.resize(data.input.size());
  random.fill(data.input, 1);
  random.fill(data.output_gradient, 1);
  return data;
}

Values dense_shard(const Experiment& e, const LayerWeights& w, int rank) {
  const Model& m = e.model;
  const int mp = e.parallelism.mp, part = rank_in_group(e.parallelism, GroupKind::Mp, rank);
  const std::int64_t all_queries = std::int64_t{m.attention.heads} * m.attention.head_size;
  const std::int64_t all_keys = std::int64_t{m.attention.kv_heads} * m.attention.head_size;
  const std::int64_t q = all_queries / mp, k = all_keys / mp;
  Values shard;
  append_block(shard, w.query, 0, all_queries, 0, m.hidden, part * q, q);
  append_block(shard, w.key, 0, all_keys, 0, m.hidden, part * k, k);
  append_block(shard, w.value, 0, all_keys, 0, m.hidden, part * k, k);
  append_block(shard, w.output, 0, m.hidden, part * q, q, 0, m.hidden);
  return shard;
}

Values expert_shard(const Experiment& e, const LayerWeights& w, int rank) {
  const Model& m = e.model;
  const Parallelism& p = e.parallelism;
  const std::int64_t here = m.experts / p.ep, shard_width = m.expert_hidden / p.esp;
  const std::int64_t first = rank_in_group(p, GroupKind::Ep, rank) * here;
  const std::int64_t col = rank_in_group(p, GroupKind::Esp, rank) * shard_width;
  Values shard;
  for (std::int64_t expert = first; expert < first + here; ++expert) {
    const std::int64_t offset = expert * m.hidden * m.expert_hidden;
    append_block(shard, w.w1, offset, m.expert_hidden, 0, m.hidden, col, shard_width);
    append_block(shard, w.w2, offset, m.hidden, col, shard_width, 0, m.hidden);
    if (!w.w3.empty()) append_block(shard, w.w3, offset, m.expert_hidden, 0, m.hidden, col, shard_width);
  }
  return shard;
}

}  // namespace dovetail::exec

// SPDX-License-Identifier: Apache-2.0
#include "exec/reference/model_data.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "exec/reference/in_parallel.hpp"
#include "exec/reference/random_numbers.hpp"
#include "exec/step/layer_shape.hpp"
#include "exec/step/word_rule.hpp"
#include "models/base/errors.hpp"
#include "models/question/capacity.hpp"
#include "models/question/extension_sizes.hpp"
#include "models/question/volumes.hpp"

namespace dovetail::exec {
namespace {

std::size_t count(std::int64_t a, std::int64_t b, std::int64_t c = 1) {
  return static_cast<std::size_t>(a * b * c);
}

constexpr double norm_deviation = .1;  // around 1

// How much of itself each part of a layer adds to its input. Half, and in deep models one over the layers: gated
// experts square their input, so that without norms activations would grow until digits, and then floats, end.
double added(const Experiment& e) {
  return std::min(.5, 1. / e.workload.layers);
}

// The matrices of attention.
struct AttentionSizes {
  std::int64_t query_inner, key_inner;            // rows of the matrices that make queries, and keys and values
  std::int64_t query_head, key_head, value_head;  // columns of a head
  std::int64_t low_query, low_key_value;          // columns of the projections to low ranks; 0: none
  explicit AttentionSizes(const Model& m) {
    const Attention& a = m.attention;
    const bool latent = a.kind == AttentionKind::Latent;
    query_inner = latent && a.q_rank > 0 ? a.q_rank : m.hidden;
    key_inner = latent ? a.kv_rank : m.hidden;
    query_head = a.head_size;
    key_head = latent ? a.nope_size : a.head_size;
    value_head = a.value_head_size();
    low_query = latent ? a.q_rank : 0;
    low_key_value = latent ? a.kv_rank + a.rope_size : 0;
  }
};

double deviation(const Experiment& e, int layer, Weight weight) {
  const Model& m = e.model;
  const AttentionSizes a(m);
  if (weight == &LayerWeights::output) return added(e) / std::sqrt(1. * m.attention.heads * a.value_head);
  if (weight == &LayerWeights::query) return 1 / std::sqrt(static_cast<double>(a.query_inner));
  if (weight == &LayerWeights::key || weight == &LayerWeights::value)
    return 1 / std::sqrt(static_cast<double>(a.key_inner));
  if (weight == &LayerWeights::norm) return norm_deviation;
  if (weight == &LayerWeights::projection) return 1 / std::sqrt(2. * m.hidden);
  if (weight == &LayerWeights::w2) return added(e) / std::sqrt(m.expert_hidden);
  if (weight == &LayerWeights::dense_w2)
    return added(e) / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, m.ffn_hidden(layer))));
  return 1 / std::sqrt(m.hidden);
}

bool is_prediction(const Experiment& e, int layer) {
  return layer >= e.workload.layers;
}

// Names the sequence of random numbers that a matrix, or the data, is made of.
std::uint64_t key_of_weight(std::uint64_t seed, int layer, Weight weight) {
  const auto which = std::ranges::find(all_weights, weight) - all_weights.begin();
  return mixed(mixed(seed) + static_cast<std::uint64_t>(16 * (std::int64_t{layer} + 1) + which));
}
std::uint64_t key_of_data(std::uint64_t seed, bool gradient) {
  return mixed(mixed(seed) + (gradient ? 1 : 0));
}

// Elements [first, first + to.size()) of a sequence.
void draw(std::uint64_t key, double deviation, std::int64_t first, std::span<double> to) {
  for (std::size_t i = 0; i < to.size(); ++i)
    to[i] = static_cast<float>(deviation * about_normal(key, static_cast<std::uint64_t>(first) + i));
}
Values drawn(std::uint64_t key, double deviation, std::size_t elements) {
  Values values(elements);
  in_parallel(std::ssize(values), [&](std::int64_t from, std::int64_t to) {
    draw(key, deviation, from, {values.data() + from, values.data() + to});
  });
  return values;
}

// Elements [first, first + to.size()) of the experts of the user's own, whose every parameter has its own deviation.
void draw_custom_experts(const Experiment& e, std::uint64_t key, std::int64_t first, std::span<double> to) {
  if (to.empty()) return;
  const ExpertSizes sizes = expert_sizes(e);
  const std::int64_t parameters = expert_parameters(e);
  draw(key, 1, first, to);
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::int64_t parameter = (first + static_cast<std::int64_t>(i)) % parameters;
    to[i] = static_cast<float>(to[i] * e.extensions.expert->deviation(sizes, parameter));
  }
}

Values drawn_norm(std::uint64_t key, std::size_t elements) {
  Values values = drawn(key, norm_deviation, elements);
  for (double& value : values) value = static_cast<float>(1 + value);
  return values;
}

// The sequences of the ends' weights, after those of the data.
enum class EndKey : std::uint64_t { Embedding = 2, Head, Norm, Words };
std::uint64_t key_of_end(std::uint64_t seed, EndKey which) {
  return mixed(mixed(seed) + static_cast<std::uint64_t>(which));
}
double end_deviation(const Experiment& e, EndKey which) {
  return which == EndKey::Head ? 1 / std::sqrt(e.model.hidden) : 1;
}

// Any word of the vocabulary, each as likely.
double drawn_word(const Experiment& e, std::uint64_t seed, std::int64_t index) {
  const std::uint64_t bits = mixed(key_of_end(seed, EndKey::Words) + static_cast<std::uint64_t>(index));
  return static_cast<double>(bits % static_cast<std::uint64_t>(e.model.vocabulary));
}

Values drawn_router(const Experiment& e, const RandomModel& random, int layer) {
  if (!e.model.is_moe(layer)) return {};
  const LayerShape shape = layer_shape(one_micro_batch(e, random.micro_batches));
  const Weight weight = &LayerWeights::router;
  Values router = drawn(key_of_weight(random.seed, layer, weight), deviation(e, layer, weight),
                        static_cast<std::size_t>(shape.router_parameters));
  if (e.extensions.gate != nullptr) {
    draw(key_of_weight(random.seed, layer, weight), 1, 0, router);
    for (std::size_t i = 0; i < router.size(); ++i)
      router[i] =
          static_cast<float>(router[i] * e.extensions.gate->deviation(gate_sizes(e), static_cast<std::int64_t>(i)));
  }
  // Log of the inverse temperature: X-MoE starts at .07, Tutel at .5.
  if (e.workload.gate.cosine())
    router.back() = static_cast<float>(std::log(1 / (e.workload.gate.kind == GateKind::XMoe ? .07 : .5)));
  return router;
}

// Rows `rows` and columns `cols` of a matrix (height, width) that starts at `offset` of some weights. Elements outside
// of the matrix are 0: heads that pad a rank's share are zero heads.
struct WeightBlock {
  Weight weight;
  std::int64_t offset, height, width;
  RowRange rows, cols;
  std::int64_t size() const { return rows.size() * cols.size(); }
};

// Writes elements [first, first + to.size()) of some weights.
using FillWeights = std::function<void(Weight weight, std::int64_t first, std::span<double> to)>;

// Writes elements [first, first + to.size()) of a block.
void fill_block(const WeightBlock& b, const FillWeights& fill, std::int64_t first, std::span<double> to) {
  while (!to.empty()) {
    const std::int64_t row = b.rows.first + first / b.cols.size(), col = b.cols.first + first % b.cols.size();
    const std::int64_t here = std::min(std::ssize(to), b.cols.last - col);
    const std::int64_t inside = row < b.height ? std::clamp<std::int64_t>(b.width - col, 0, here) : 0;
    fill(b.weight, b.offset + row * b.width + col, to.first(static_cast<std::size_t>(inside)));
    std::ranges::fill(to.subspan(static_cast<std::size_t>(inside), static_cast<std::size_t>(here - inside)), 0);
    to = to.subspan(static_cast<std::size_t>(here));
    first += here;
  }
}

// Blocks one after the other.
Numbers assembled(std::vector<WeightBlock> blocks, FillWeights fill) {
  return [blocks = std::move(blocks), fill = std::move(fill)](std::int64_t first, std::span<double> to) {
    for (const WeightBlock& b : blocks) {
      const std::int64_t here = std::clamp<std::int64_t>(b.size() - first, 0, std::ssize(to));
      fill_block(b, fill, first, to.first(static_cast<std::size_t>(here)));
      to = to.subspan(static_cast<std::size_t>(here));
      first = std::max<std::int64_t>(0, first - b.size());
    }
    check(to.empty(), "a tensor is larger than its weights");
  };
}

FillWeights from(const LayerWeights& weights) {
  return [&weights](Weight weight, std::int64_t first, std::span<double> to) {
    std::copy_n((weights.*weight).begin() + first, to.size(), to.begin());
  };
}
FillWeights from(const Experiment& e, const ModelData& data, int layer) {
  if (!data.drawn_later) return from(data.layers[static_cast<std::size_t>(layer)]);
  return [&e, seed = data.drawn_later->seed, layer](Weight weight, std::int64_t first, std::span<double> to) {
    if (weight == &LayerWeights::custom_experts)
      return draw_custom_experts(e, key_of_weight(seed, layer, weight), first, to);
    draw(key_of_weight(seed, layer, weight), deviation(e, layer, weight), first, to);
  };
}

Values all_of(const std::vector<WeightBlock>& blocks, const LayerWeights& weights) {
  std::int64_t size = 0;
  for (const WeightBlock& b : blocks) size += b.size();
  Values values(static_cast<std::size_t>(size));
  assembled(blocks, from(weights))(0, values);
  return values;
}

int rank_in_group(const Parallelism& parallelism, GroupKind kind, int rank) {
  const std::vector<int> members = group_members(parallelism, kind, rank);
  for (std::size_t i = 0; i < members.size(); ++i)
    if (members[i] == rank) return static_cast<int>(i);
  return 0;
}

// `ffn`: hidden size of the dense feed-forward part. `predicts`: a layer of multi-token prediction.
std::vector<WeightBlock> dense_blocks(const Experiment& e, std::int64_t ffn, bool predicts, int rank) {
  const Model& m = e.model;
  const LayerVolumes v = layer_volumes(e);
  const AttentionSizes a(m);
  const std::int64_t heads = m.attention.heads, key_heads = m.attention.kv_heads;
  const std::int64_t here = v.query_heads, keys_here = v.key_value_width / m.attention.head_size;
  const int part = rank_in_group(e.parallelism, GroupKind::Mp, rank);
  const auto own = [&](std::int64_t width) { return RowRange{part * width, (part + 1) * width}; };
  const auto rows = [](std::int64_t count) { return RowRange{0, count}; };
  const RowRange all = rows(m.hidden), f = own(ffn / e.parallelism.mp), context = own(here * a.value_head);
  std::vector<WeightBlock> blocks{
      {&LayerWeights::query_down, 0, m.hidden, a.low_query, all, rows(a.low_query)},
      {&LayerWeights::key_value_down, 0, m.hidden, a.low_key_value, all, rows(a.low_key_value)},
      {&LayerWeights::query, 0, a.query_inner, heads * a.query_head, rows(a.query_inner), own(here * a.query_head)},
      {&LayerWeights::key, 0, a.key_inner, key_heads * a.key_head, rows(a.key_inner), own(keys_here * a.key_head)},
      {&LayerWeights::value, 0, a.key_inner, key_heads * a.value_head, rows(a.key_inner),
       own(keys_here * a.value_head)},
      {&LayerWeights::output, 0, heads * a.value_head, m.hidden, context, all},
      {&LayerWeights::dense_w1, 0, m.hidden, ffn, all, f},
      {&LayerWeights::dense_w2, 0, ffn, m.hidden, f, all}};
  if (m.expert_kind == ExpertKind::Gated) blocks.push_back({&LayerWeights::dense_w3, 0, m.hidden, ffn, all, f});
  const std::int64_t columns = m.hidden / e.parallelism.mp;
  if (predicts)
    blocks.push_back({&LayerWeights::projection,
                      0,
                      2 * std::int64_t{m.hidden},
                      m.hidden,
                      {0, 2 * std::int64_t{m.hidden}},
                      {part * columns, (part + 1) * columns}});
  return blocks;
}

// The experts of a shard follow one another, and so do those of a rank.
std::vector<WeightBlock> custom_expert_blocks(const Experiment& e, int rank) {
  const std::int64_t here = e.model.experts / e.parallelism.ep, size = here * expert_parameters(e);
  const std::int64_t shard = rank_in_group(e.parallelism, GroupKind::Esp, rank),
                     owner = rank_in_group(e.parallelism, GroupKind::Ep, rank);
  return {{&LayerWeights::custom_experts, (shard * e.parallelism.ep + owner) * size, 1, size, {0, 1}, {0, size}}};
}

std::vector<WeightBlock> expert_blocks(const Experiment& e, int rank) {
  if (e.extensions.expert != nullptr) return custom_expert_blocks(e, rank);
  const Model& m = e.model;
  const Parallelism& p = e.parallelism;
  const std::int64_t here = m.experts / p.ep, width = m.expert_hidden / p.esp;
  const std::int64_t first = rank_in_group(p, GroupKind::Ep, rank) * here;
  const std::int64_t part = rank_in_group(p, GroupKind::Esp, rank);
  const RowRange all{0, m.hidden}, shard{part * width, (part + 1) * width};
  std::vector<WeightBlock> blocks;
  for (std::int64_t expert = first; expert < first + here; ++expert) {
    const std::int64_t offset = expert * m.hidden * m.expert_hidden;
    blocks.push_back({&LayerWeights::w1, offset, m.hidden, m.expert_hidden, all, shard});
    blocks.push_back({&LayerWeights::w2, offset, m.expert_hidden, m.hidden, shard, all});
    if (m.expert_kind == ExpertKind::Gated)
      blocks.push_back({&LayerWeights::w3, offset, m.hidden, m.expert_hidden, all, shard});
  }
  return blocks;
}

}  // namespace

LayerWeights zero_weights(const Experiment& e, int layer) {
  const Model& m = e.model;
  const AttentionSizes a(m);
  LayerWeights w;
  w.query_down.resize(count(m.hidden, a.low_query));
  w.key_value_down.resize(count(m.hidden, a.low_key_value));
  w.query.resize(count(a.query_inner, m.attention.heads, a.query_head));
  w.key.resize(count(a.key_inner, m.attention.kv_heads, a.key_head));
  w.value.resize(count(a.key_inner, m.attention.kv_heads, a.value_head));
  w.output.resize(count(m.attention.heads, a.value_head, m.hidden));
  if (m.is_moe(layer)) {
    w.router.resize(static_cast<std::size_t>(layer_shape(e).router_parameters));
    if (e.extensions.expert == nullptr)
      w.w1.resize(count(m.experts, m.hidden, m.expert_hidden));
    else
      w.custom_experts.resize(count(e.parallelism.esp, m.experts, expert_parameters(e)));
    w.w2.resize(w.w1.size());
  }
  w.dense_w1.resize(count(m.hidden, m.ffn_hidden(layer)));
  w.dense_w2.resize(w.dense_w1.size());
  if (m.expert_kind == ExpertKind::Gated) {
    w.w3.resize(w.w1.size());
    w.dense_w3.resize(w.dense_w1.size());
  }
  w.norm.resize(static_cast<std::size_t>(layer_volumes(e, layer).norm_parameters));
  if (is_prediction(e, layer)) w.projection.resize(count(2 * std::int64_t{m.hidden}, m.hidden));
  return w;
}

EndWeights zero_end_weights(const Experiment& e) {
  const EndVolumes v = end_volumes(e);
  const int mp = e.parallelism.mp;
  return {Values(count(v.embedding_parameters, mp)), Values(count(v.head_parameters, mp)),
          Values(static_cast<std::size_t>(v.norm_parameters))};
}

namespace {

EndWeights drawn_ends(const Experiment& e, std::uint64_t seed) {
  EndWeights w = zero_end_weights(e);
  w.embedding = drawn(key_of_end(seed, EndKey::Embedding), end_deviation(e, EndKey::Embedding), w.embedding.size());
  w.head = drawn(key_of_end(seed, EndKey::Head), end_deviation(e, EndKey::Head), w.head.size());
  w.norm = drawn_norm(key_of_end(seed, EndKey::Norm), w.norm.size());
  return w;
}

}  // namespace

ModelData random_model_data(const Experiment& e, std::uint64_t seed, int micro_batches) {
  const Experiment part = one_micro_batch(e, micro_batches);
  ModelData data;
  for (int layer = 0; layer < e.workload.all_layers(); ++layer) {
    LayerWeights w = zero_weights(part, layer);
    for (Weight weight : all_weights)
      if (weight == &LayerWeights::router)
        w.router = drawn_router(e, {seed, micro_batches}, layer);
      else if (weight == &LayerWeights::norm)
        w.norm = drawn_norm(key_of_weight(seed, layer, weight), w.norm.size());
      else if (weight == &LayerWeights::custom_experts)
        draw_custom_experts(e, key_of_weight(seed, layer, weight), 0, w.custom_experts);
      else
        w.*weight = drawn(key_of_weight(seed, layer, weight), deviation(e, layer, weight), (w.*weight).size());
    data.layers.push_back(std::move(w));
  }
  const std::size_t elements = count(e.parallelism.token_ranks(), layer_volumes(e).tokens, e.model.hidden);
  data.input = drawn(key_of_data(seed, false), 1, elements);
  data.output_gradient = drawn(key_of_data(seed, true), 1, elements);
  if (!end_volumes(e).exist()) return data;
  data.ends = drawn_ends(e, seed);
  const std::int64_t words = std::int64_t{e.workload.batch} * e.workload.sequence * e.parallelism.dp;
  for (std::int64_t i = 0; i < words; ++i) data.words.push_back(drawn_word(e, seed, i));
  return data;
}

ModelData random_rank_data(std::uint64_t seed, int micro_batches) {
  ModelData data;
  data.drawn_later = {seed, micro_batches};
  return data;
}

Values dense_shard(const Experiment& e, const LayerWeights& w, int rank) {
  return all_of(dense_blocks(e, std::ssize(w.dense_w1) / e.model.hidden, !w.projection.empty(), rank), w);
}
Values expert_shard(const Experiment& e, const LayerWeights& w, int rank) {
  return all_of(expert_blocks(e, rank), w);
}

Numbers dense_numbers(const Experiment& e, const ModelData& data, int layer, int rank) {
  return assembled(dense_blocks(e, e.model.ffn_hidden(layer), is_prediction(e, layer), rank), from(e, data, layer));
}
Numbers expert_numbers(const Experiment& e, const ModelData& data, int layer, int rank) {
  return assembled(expert_blocks(e, rank), from(e, data, layer));
}
Numbers router_numbers(const Experiment& e, const ModelData& data, int layer) {
  Values router = data.drawn_later ? drawn_router(e, *data.drawn_later, layer)
                                   : data.layers[static_cast<std::size_t>(layer)].router;
  return [router = std::move(router)](std::int64_t first, std::span<double> to) {
    std::copy_n(router.begin() + first, to.size(), to.begin());
  };
}
Numbers norm_numbers(const Experiment& e, const ModelData& data, int layer) {
  const bool last = layer == e.workload.all_layers();
  const auto elements =
      static_cast<std::size_t>(last ? end_volumes(e).norm_parameters : layer_volumes(e, layer).norm_parameters);
  Values norm;
  if (!data.drawn_later)
    norm = last ? data.ends.norm : data.layers[static_cast<std::size_t>(layer)].norm;
  else if (const std::uint64_t seed = data.drawn_later->seed; last)
    norm = drawn_norm(key_of_end(seed, EndKey::Norm), elements);
  else
    norm = drawn_norm(key_of_weight(seed, layer, &LayerWeights::norm), elements);
  return [norm = std::move(norm)](std::int64_t first, std::span<double> to) {
    std::copy_n(norm.begin() + first, to.size(), to.begin());
  };
}

Numbers end_numbers(const Experiment& e, const ModelData& data, End end, int rank) {
  const std::int64_t skipped = rank_in_group(e.parallelism, GroupKind::Mp, rank) * end_volumes(e).embedding_parameters;
  const EndKey which = end == End::Embedding ? EndKey::Embedding : EndKey::Head;
  if (data.drawn_later)
    return [key = key_of_end(data.drawn_later->seed, which), deviation = end_deviation(e, which), skipped](
               std::int64_t first, std::span<double> to) { draw(key, deviation, skipped + first, to); };
  return [&all = end == End::Embedding ? data.ends.embedding : data.ends.head, skipped](std::int64_t first,
                                                                                        std::span<double> to) {
    std::copy_n(all.begin() + skipped + first, to.size(), to.begin());
  };
}

Numbers word_numbers(const Experiment& e, const ModelData& data, int micro_batch, int micro_batches, int rank) {
  const std::int64_t sequence = e.workload.sequence, here = e.workload.batch / micro_batches * sequence;
  const std::int64_t group = rank % e.parallelism.stage_ranks() / e.parallelism.mp;
  const std::int64_t skipped = (std::int64_t{micro_batch} * e.parallelism.dp + group) * here;
  return [&e, &data, sequence, here, skipped](std::int64_t first, std::span<double> to) {
    for (double& word : to) {
      std::int64_t at = first % here;
      if (first++ >= here) at = shifted_position(at, sequence, 1);  // the one after it
      at += skipped;
      word = data.drawn_later ? drawn_word(e, data.drawn_later->seed, at) : data.words[static_cast<std::size_t>(at)];
    }
  };
}

Numbers input_numbers(const ModelData& data, bool gradient) {
  if (data.drawn_later)
    return [key = key_of_data(data.drawn_later->seed, gradient)](std::int64_t first, std::span<double> to) {
      draw(key, 1, first, to);
    };
  return [&all = gradient ? data.output_gradient : data.input](std::int64_t first, std::span<double> to) {
    std::copy_n(all.begin() + first, to.size(), to.begin());
  };
}

}  // namespace dovetail::exec

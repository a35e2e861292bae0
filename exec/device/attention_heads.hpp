// SPDX-License-Identifier: Apache-2.0
// The part of attention that is between its projections, of a chunk of queries: products over whole heads, softmax, and
// their gradients. A product is a strided batch over samples or over key heads, whichever there are more of.
#pragma once
#include <algorithm>
#include <cmath>

#include "exec/device/attention_bodies.hpp"
#include "exec/device/recorder.hpp"
#include "exec/step/layer_shape.hpp"
#include "exec/step/projection_columns.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {

struct AttentionHeads {
  std::int64_t per_key_head, key_heads, size, value_size;
  explicit AttentionHeads(const LayerShape& s)
      : per_key_head(s.heads / s.kv_heads), key_heads(s.kv_heads), size(s.head_size), value_size(s.value_head()) {
    check(s.heads % s.kv_heads == 0, "query heads that do not divide among key heads");
  }
};

// Scores and probabilities of the samples that are computed together take no more bytes than this, unless those of one
// sample do. The backward pass takes as much again for their gradients.
constexpr std::int64_t most_score_bytes = std::int64_t{1} << 30;

// The queries at some positions of all samples, in groups of samples that share their scratch memory.
struct AttentionChunk {
  AttentionHeads heads;
  CausalRows rows;
  std::int64_t samples, at_once;  // all; of a group at most

  // `bytes_each`: of a score and its probability.
  AttentionChunk(const LayerShape& s, RowRange positions, std::int64_t bytes_each,
                 std::int64_t limit = most_score_bytes)
      : heads(s), rows{positions.first, positions.size(), s.heads, s.sequence}, samples(s.samples), at_once(samples) {
    const std::int64_t of_sample = rows.of_sample() * rows.keys() * bytes_each;
    if (of_sample * samples <= limit) return;
    const std::int64_t most = std::max<std::int64_t>(limit / of_sample, 1), groups = (samples + most - 1) / most;
    at_once = (samples + groups - 1) / groups;  // groups of about one size
  }
  std::int64_t scores() const { return at_once * rows.of_sample() * rows.keys(); }  // of a group
};
template <class Scalar>
constexpr std::int64_t score_bytes = sizeof(Wide<Scalar>) + sizeof(Scalar);

template <class Scalar>
Wide<Scalar> score_scale(std::int64_t head_size) {
  return 1 / std::sqrt(static_cast<Wide<Scalar>>(head_size));
}

// Matrices of one shape, one for each sample of a group and each head; those of queries for each query head, whose
// place is among those of its key head. The distances from one to the next are in elements.
template <class Item>
struct HeadMatrices {
  Matrix<Item> first;
  std::int64_t by_sample, by_key_head, by_place;
  bool transposed = false;  // as a factor

  Matrix<Item> at(std::int64_t sample, std::int64_t key_head, std::int64_t place) const {
    return {first.data + sample * by_sample + key_head * by_key_head + place * by_place, first.rows, first.cols,
            first.stride};
  }
  operator HeadMatrices<const Item>() const requires(!std::is_const_v<Item>) {
    return {first, by_sample, by_key_head, by_place, transposed};
  }
};
template <class Item>
HeadMatrices<Item> transposed(HeadMatrices<Item> m) {
  m.transposed = true;
  return m;
}

// The matrices that are multiplied for a group of samples. Scores are (samples, heads, queries, keys), where the heads
// of a key head follow one another.
struct SampleGroup {
  AttentionHeads heads;
  CausalRows rows;
  std::int64_t first_sample, samples;

  std::int64_t first_token() const { return first_sample * rows.sequence; }

  template <class Item>
  HeadMatrices<Item> scores(Item* all) const {
    const std::int64_t one = rows.count * rows.keys();
    return {{all, rows.count, rows.keys()}, rows.heads * one, heads.per_key_head * one, one};
  }
  template <class Item>
  HeadMatrices<Item> queries(const Matrix<Item>& columns) const {
    return of_query_heads(columns, heads.size);
  }
  template <class Item>
  HeadMatrices<Item> contexts(const Matrix<Item>& columns) const {
    return of_query_heads(columns, heads.value_size);
  }
  template <class Item>
  HeadMatrices<Item> keys(const Matrix<Item>& columns) const {
    return of_key_heads(columns, heads.size);
  }
  template <class Item>
  HeadMatrices<Item> values(const Matrix<Item>& columns) const {
    return of_key_heads(columns, heads.value_size);
  }

 private:
  template <class Item>
  HeadMatrices<Item> of_query_heads(const Matrix<Item>& columns, std::int64_t size) const {
    return {columns.rows_from(first_token() + rows.first, rows.count).cols_from(0, size),
            rows.sequence * columns.stride, heads.per_key_head * size, size};
  }
  template <class Item>
  HeadMatrices<Item> of_key_heads(const Matrix<Item>& columns, std::int64_t size) const {
    return {columns.rows_from(first_token(), rows.keys()).cols_from(0, size), rows.sequence * columns.stride, size, 0};
  }
};

// c = a b or c += a b for each sample of the group and each query head. Query heads that share a key head follow one
// another, because they may add to one gradient.
template <class Scalar, class Result>
void multiply_heads(Recorder& out, const SampleGroup& group, const std::type_identity_t<HeadMatrices<const Scalar>>& a,
                    const std::type_identity_t<HeadMatrices<const Scalar>>& b, const HeadMatrices<Result>& c,
                    Into into = Into::Overwrite) {
  const std::int64_t key_heads = group.heads.key_heads;
  const bool over_samples = group.samples >= key_heads;
  const auto step = [&](const auto& m) { return over_samples ? m.by_sample : m.by_key_head; };
  const Batch batch{over_samples ? group.samples : key_heads, step(a), step(b), step(c)};
  for (std::int64_t other = 0; other < (over_samples ? key_heads : group.samples); ++other) {
    const std::int64_t sample = over_samples ? 0 : other, key_head = over_samples ? other : 0;
    for (std::int64_t place = 0; place < group.heads.per_key_head; ++place)
      out.multiply(product<Scalar>(Factor<Scalar>(a.at(sample, key_head, place), a.transposed),
                                   Factor<Scalar>(b.at(sample, key_head, place), b.transposed),
                                   c.at(sample, key_head, place), into, batch));
  }
}

template <class Visit>
void for_each_group(const AttentionChunk& chunk, Visit visit) {
  for (std::int64_t first = 0; first < chunk.samples; first += chunk.at_once)
    visit(SampleGroup{chunk.heads, chunk.rows, first, std::min(chunk.at_once, chunk.samples - first)});
}

// Each of as many elements as a group has scores.
template <class Scalar>
struct AttentionScratch {
  Wide<Scalar>* scores;
  Scalar* probabilities;
};

// Computes all samples; `log_sum_exp` (L, heads).
template <class Scalar>
void record_heads(Recorder& out, const AttentionChunk& chunk, const ProjectionColumns<const Scalar>& qkv,
                  const AttentionScratch<Scalar>& scratch, Wide<Scalar>* log_sum_exp, const Matrix<Scalar>& contexts) {
  for_each_group(chunk, [&](const SampleGroup& g) {
    multiply_heads<Scalar>(out, g, g.queries(qkv.query), transposed(g.keys(qkv.key)), g.scores(scratch.scores));
    out.launch(g.samples * g.rows.of_sample(),
               CausalSoftmax<Scalar>{g.rows, scratch.scores, scratch.probabilities,
                                     log_sum_exp + g.first_token() * g.rows.heads, score_scale<Scalar>(g.heads.size)});
    multiply_heads<Scalar>(out, g, g.scores(scratch.probabilities), g.values(qkv.value), g.contexts(contexts));
  });
}

// The forward pass leaves these for the backward pass.
template <class Scalar>
struct AttentionForward {
  ProjectionColumns<const Scalar> qkv;
  const Wide<Scalar>* log_sum_exp;  // as above
};

template <class Scalar>
struct AttentionBackwardScratch {
  Wide<Scalar>*scores, *d_probabilities;
  Scalar *probabilities, *d_scores;
};

// Adds to the gradients of queries, keys and values of all samples.
template <class Scalar>
void record_heads_backward(Recorder& out, const AttentionChunk& chunk, const AttentionForward<Scalar>& forward,
                           const Matrix<const Scalar>& d_contexts, const AttentionBackwardScratch<Scalar>& scratch,
                           const ProjectionColumns<Scalar>& d_qkv) {
  const ProjectionColumns<const Scalar>& qkv = forward.qkv;
  for_each_group(chunk, [&](const SampleGroup& g) {
    const auto d_context = g.contexts(d_contexts);
    const auto p = g.scores(scratch.probabilities), d_s = g.scores(scratch.d_scores);
    multiply_heads<Scalar>(out, g, g.queries(qkv.query), transposed(g.keys(qkv.key)), g.scores(scratch.scores));
    multiply_heads<Scalar>(out, g, d_context, transposed(g.values(qkv.value)), g.scores(scratch.d_probabilities));
    out.launch(g.samples * g.rows.of_sample(),
               SoftmaxBackward<Scalar>{g.rows, scratch.scores, scratch.d_probabilities,
                                       forward.log_sum_exp + g.first_token() * g.rows.heads, scratch.probabilities,
                                       scratch.d_scores, score_scale<Scalar>(g.heads.size)});
    multiply_heads<Scalar>(out, g, transposed(p), d_context, g.values(d_qkv.value), Into::Add);
    multiply_heads<Scalar>(out, g, d_s, g.keys(qkv.key), g.queries(d_qkv.query), Into::Add);
    multiply_heads<Scalar>(out, g, transposed(d_s), g.queries(qkv.query), g.keys(d_qkv.key), Into::Add);
  });
}

}  // namespace dovetail::exec

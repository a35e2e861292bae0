// The part of attention that is between its projections, of one sample's chunk of queries: products over whole heads,
// softmax, and their gradients.
#pragma once
#include <cmath>

#include "exec/device/attention_bodies.hpp"
#include "exec/device/recorder.hpp"
#include "exec/step/layer_shape.hpp"
#include "exec/step/projection_columns.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {

// One batched product over the key heads for each query head that a key head serves.
struct AttentionHeads {
  std::int64_t per_key_head, key_heads, size, value_size;
  explicit AttentionHeads(const LayerShape& s)
      : per_key_head(s.heads / s.kv_heads), key_heads(s.kv_heads), size(s.head_size), value_size(s.value_head()) {
    check(s.heads % s.kv_heads == 0, "query heads that do not divide among key heads");
  }
};

template <class Scalar>
Wide<Scalar> score_scale(std::int64_t head_size) {
  return 1 / std::sqrt(static_cast<Wide<Scalar>>(head_size));
}

// The matrices that are multiplied for one sample's chunk of queries and all heads. Scores are (heads, queries, keys),
// where the heads of a key head follow one another.
template <class Scalar>
struct SampleChunk {
  AttentionHeads heads;
  CausalRows rows;
  std::int64_t token;  // first of the sample
  std::int64_t queries() const { return rows.count; }
  std::int64_t keys() const { return rows.keys(); }
  std::int64_t elements() const { return rows.heads * queries() * keys(); }

  // These belong to the i-th query head of each key head; a batch goes over the key heads.
  template <class Item>
  Matrix<Item> scores(Item* all, std::int64_t i) const {
    return {all + i * queries() * keys(), queries(), keys()};
  }
  std::int64_t score_step() const { return heads.per_key_head * queries() * keys(); }
  template <class Item>
  Matrix<Item> query(Matrix<Item> columns, std::int64_t i) const {
    return columns.rows_from(token + rows.first, queries()).cols_from(i * heads.size, heads.size);
  }
  std::int64_t query_step() const { return heads.per_key_head * heads.size; }
  template <class Item>
  Matrix<Item> context(Matrix<Item> columns, std::int64_t i) const {
    return columns.rows_from(token + rows.first, queries()).cols_from(i * heads.value_size, heads.value_size);
  }
  std::int64_t context_step() const { return heads.per_key_head * heads.value_size; }
  template <class Item>
  Matrix<Item> key(Matrix<Item> columns) const {
    return columns.rows_from(token, keys()).cols_from(0, heads.size);
  }
  std::int64_t key_step() const { return heads.size; }
  template <class Item>
  Matrix<Item> value(Matrix<Item> columns) const {
    return columns.rows_from(token, keys()).cols_from(0, heads.value_size);
  }
  std::int64_t value_step() const { return heads.value_size; }
};

// Each of as many elements as the chunk's scores.
template <class Scalar>
struct AttentionScratch {
  Wide<Scalar>* scores;
  Scalar* probabilities;
};

// `log_sum_exp`: from the sample's first token on.
template <class Scalar>
void record_heads(Recorder& out, const SampleChunk<Scalar>& c, const ProjectionColumns<const Scalar>& qkv,
                  const AttentionScratch<Scalar>& scratch, Wide<Scalar>* log_sum_exp, const Matrix<Scalar>& contexts) {
  for (std::int64_t i = 0; i < c.heads.per_key_head; ++i)
    out.multiply(product<Scalar>(c.query(qkv.query, i), transposed(c.key(qkv.key)), c.scores(scratch.scores, i),
                                 Into::Overwrite, {c.heads.key_heads, c.query_step(), c.key_step(), c.score_step()}));
  out.launch(c.rows.heads * c.rows.count, CausalSoftmax<Scalar>{c.rows, scratch.scores, scratch.probabilities,
                                                                log_sum_exp, score_scale<Scalar>(c.heads.size)});
  for (std::int64_t i = 0; i < c.heads.per_key_head; ++i)
    out.multiply(product<Scalar>(c.scores(scratch.probabilities, i), c.value(qkv.value), c.context(contexts, i),
                                 Into::Overwrite,
                                 {c.heads.key_heads, c.score_step(), c.value_step(), c.context_step()}));
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

// Adds to the gradients of queries, keys and values.
template <class Scalar>
void record_heads_backward(Recorder& out, const SampleChunk<Scalar>& c, const AttentionForward<Scalar>& forward,
                           const Matrix<const Scalar>& d_contexts, const AttentionBackwardScratch<Scalar>& scratch,
                           const ProjectionColumns<Scalar>& d_qkv) {
  const ProjectionColumns<const Scalar>& qkv = forward.qkv;
  const Batch by_keys{c.heads.key_heads, c.query_step(), c.key_step(), c.score_step()};
  for (std::int64_t i = 0; i < c.heads.per_key_head; ++i) {
    out.multiply(product<Scalar>(c.query(qkv.query, i), transposed(c.key(qkv.key)), c.scores(scratch.scores, i),
                                 Into::Overwrite, by_keys));
    out.multiply(product<Scalar>(c.context(d_contexts, i), transposed(c.value(qkv.value)),
                                 c.scores(scratch.d_probabilities, i), Into::Overwrite,
                                 {c.heads.key_heads, c.context_step(), c.value_step(), c.score_step()}));
  }
  out.launch(c.rows.heads * c.rows.count,
             SoftmaxBackward<Scalar>{c.rows, scratch.scores, scratch.d_probabilities, forward.log_sum_exp,
                                     scratch.probabilities, scratch.d_scores, score_scale<Scalar>(c.heads.size)});
  const Batch to_keys{c.heads.key_heads, c.score_step(), c.query_step(), c.key_step()};
  for (std::int64_t i = 0; i < c.heads.per_key_head; ++i) {
    out.multiply(product<Scalar>(transposed(c.scores(scratch.probabilities, i)), c.context(d_contexts, i),
                                 c.value(d_qkv.value), Into::Add,
                                 {c.heads.key_heads, c.score_step(), c.context_step(), c.value_step()}));
    out.multiply(product<Scalar>(c.scores(scratch.d_scores, i), c.key(qkv.key), c.query(d_qkv.query, i), Into::Add,
                                 {c.heads.key_heads, c.score_step(), c.key_step(), c.query_step()}));
    out.multiply(product<Scalar>(transposed(c.scores(scratch.d_scores, i)), c.query(qkv.query, i), c.key(d_qkv.key),
                                 Into::Add, to_keys));
  }
}

}  // namespace dovetail::exec

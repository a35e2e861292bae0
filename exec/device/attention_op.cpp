// SPDX-License-Identifier: Apache-2.0
// Attention by products over whole heads: scores of all queries of a chunk with all keys up to its last, softmax with
// the causal offset, and the backward pass from log_sum_exp. Samples are multiplied in batches.
#include "exec/device/attention_heads.hpp"
#include "exec/device/device_op.hpp"
#include "exec/device/rotary.hpp"
#include "exec/device/token_order.hpp"
#include "exec/host/host_kernels.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

template <class Scalar>
void project(const DeviceOp<Scalar>& op, const Scalar* input, const Scalar* weights, Scalar* projected) {
  const DenseWeights<const Scalar> w(op.shape, weights);
  const ProjectionColumns<Scalar> to(op.shape, projected);
  const Matrix<const Scalar> x = ordered_rows(op, input, op.shape.hidden);
  op.out.multiply(product<Scalar>(x, w.query, to.query));
  op.out.multiply(product<Scalar>(x, w.key, to.key));
  op.out.multiply(product<Scalar>(x, w.value, to.value));
  if (op.shape.turns_projections())
    record_turn<Scalar>(op.out, op.shape, Turn::On, {to.query, to.key}, {to.query, to.key});
}

// The gradients of what the projections gave; scratch memory takes them if that was turned.
template <class Scalar>
ProjectionColumns<const Scalar> before_turn(const DeviceOp<Scalar>& op, const Scalar* d_projected) {
  const LayerShape& s = op.shape;
  ProjectionColumns<const Scalar> d(s, d_projected);
  if (!s.turns_projections()) return d;
  const std::int64_t tokens = s.sequence_tokens(), turned = s.query_width() + s.key_width();
  const Matrix<Scalar> back(op.out.template scratch<Scalar>(tokens * turned), tokens, turned);
  const QueryKeyColumns<Scalar> to{back.cols_from(0, s.query_width()), back.cols_from(s.query_width(), s.key_width())};
  record_turn<Scalar>(op.out, s, Turn::Back, {d.query, d.key}, to);
  d.query = to.query;
  d.key = to.key;
  return d;
}

// The op's range of the gradients of weights; null: its half has none.
template <class Scalar>
Scalar* weight_gradients(const DeviceOp<Scalar>& op) {
  return op.op.half == Half::Inputs ? nullptr : op.write(TensorKind::DenseGradients) + op.op.gradients.first;
}

// Adds to the gradients of the projections' weights, and makes that of the input, as far as the op has that half.
template <class Scalar>
void project_backward(const DeviceOp<Scalar>& op, const Scalar* d_projected) {
  const LayerShape& s = op.shape;
  const ProjectionColumns<const Scalar> d = before_turn(op, d_projected);
  if (op.op.half != Half::Inputs) {
    const DenseWeights<Scalar> g(s, weight_gradients(op));
    const Matrix<const Scalar> x = ordered_rows(op, op.read(roles::attention_input), s.hidden);
    op.out.multiply(product<Scalar>(transposed(x), d.query, g.query, Into::Add));
    op.out.multiply(product<Scalar>(transposed(x), d.key, g.key, Into::Add));
    op.out.multiply(product<Scalar>(transposed(x), d.value, g.value, Into::Add));
  }
  if (op.op.half == Half::Weights) return;
  const DenseWeights<const Scalar> w(s, op.read(TensorKind::DenseWeights));
  const RowsToReturn<Scalar> ordered(op, op.write(gradient_of(TensorKind::AttentionInput)), s.hidden);
  const Matrix<Scalar>& d_x = ordered.rows();
  op.out.multiply(product<Scalar>(d.query, transposed(w.query), d_x));
  op.out.multiply(product<Scalar>(d.key, transposed(w.key), d_x, Into::Add));
  op.out.multiply(product<Scalar>(d.value, transposed(w.value), d_x, Into::Add));
  ordered.give();
}

// A chunk's rows of a matrix of all tokens: one matrix where they follow one another, else one of each sample.
template <class Item>
struct ChunkRows {
  Matrix<Item> first;
  std::int64_t count, step;  // matrices, elements from one to the next
  ChunkRows(const AttentionChunk& chunk, const Matrix<Item>& tokens)
      : count(chunk.rows.count == chunk.rows.sequence ? 1 : chunk.samples), step(chunk.rows.sequence * tokens.stride) {
    first = tokens.rows_from(chunk.rows.first, count == 1 ? chunk.samples * chunk.rows.count : chunk.rows.count);
  }
};

// Without the output's projection if `partial` is null.
template <class Scalar>
void attend(const DeviceOp<Scalar>& op, const Scalar* projected, const Scalar* weights, Scalar* context,
            Wide<Scalar>* log_sum_exp, Scalar* partial) {
  const LayerShape& s = op.shape;
  const AttentionChunk chunk(s, op.part.positions, score_bytes<Scalar>);
  const Matrix<Scalar> contexts(context, s.sequence_tokens(), s.context_width());
  const AttentionScratch<Scalar> scratch{op.out.template scratch<Wide<Scalar>>(chunk.scores()),
                                         op.out.template scratch<Scalar>(chunk.scores())};
  record_heads(op.out, chunk, ProjectionColumns<const Scalar>(s, projected), scratch, log_sum_exp, contexts);
  if (partial == nullptr) return;
  const ChunkRows<Scalar> from(chunk, contexts);
  const std::int64_t rows = from.first.rows;
  op.out.multiply(product<Scalar>(from.first, DenseWeights<const Scalar>(s, weights).output,
                                  Matrix<Scalar>(partial, rows, s.hidden), Into::Overwrite,
                                  {from.count, from.step, 0, rows * s.hidden}));
}

// The rows as one matrix, for sums over all of them; scratch memory takes them if they do not follow one another.
template <class Scalar>
Matrix<const Scalar> rows_together(const DeviceOp<Scalar>& op, const AttentionChunk& chunk,
                                   const Matrix<const Scalar>& tokens) {
  const ChunkRows<const Scalar> rows(chunk, tokens);
  if (rows.count == 1) return rows.first;
  std::vector<std::int64_t> from;
  for (std::int64_t sample = 0; sample < chunk.samples; ++sample)
    for (std::int64_t i = 0; i < chunk.rows.count; ++i)
      from.push_back(sample * chunk.rows.sequence + chunk.rows.first + i);
  const std::int64_t count = std::ssize(from);
  Scalar* const to = op.out.template scratch<Scalar>(count * tokens.cols);
  op.out.launch(count, MoveRows<Scalar>{tokens.data, to, tokens.cols, op.out.table(from), nullptr});
  return {to, count, tokens.cols};
}

// From the gradients of the projection's results to those of its weights, which are added to.
template <class Scalar>
void output_weight_gradients(const DeviceOp<Scalar>& op, const AttentionChunk& chunk, Scalar* d_weights) {
  const LayerShape& s = op.shape;
  const Matrix<const Scalar> contexts(op.read(TensorKind::AttentionContext), s.sequence_tokens(), s.context_width());
  const ChunkRows<const Scalar> rows(chunk, contexts);
  const Matrix<const Scalar> d_out(op.read(roles::d_attention_partial), rows.count * rows.first.rows, s.hidden);
  op.out.multiply(product<Scalar>(transposed(rows_together(op, chunk, contexts)), d_out,
                                  Matrix<Scalar>(d_weights, s.context_width(), s.hidden), Into::Add));
}

// To those of the contexts.
template <class Scalar>
Matrix<Scalar> context_gradients(const DeviceOp<Scalar>& op, const AttentionChunk& chunk) {
  const LayerShape& s = op.shape;
  const std::int64_t tokens = s.sequence_tokens(), width = s.context_width();
  const Matrix<Scalar> d_contexts(op.out.template scratch<Scalar>(tokens * width), tokens, width);
  const ChunkRows<Scalar> to(chunk, d_contexts);
  const std::int64_t rows = to.first.rows;
  const Matrix<const Scalar> d_out(op.read(roles::d_attention_partial), rows, s.hidden);
  const DenseWeights<const Scalar> w(s, op.read(TensorKind::DenseWeights));
  op.out.multiply(
      product<Scalar>(d_out, transposed(w.output), to.first, Into::Overwrite, {to.count, rows * s.hidden, 0, to.step}));
  return d_contexts;
}

// `d_projected`: added to.
template <class Scalar>
void attend_backward(const DeviceOp<Scalar>& op, const AttentionChunk& chunk, Scalar* d_projected) {
  const LayerShape& s = op.shape;
  const std::int64_t scores = chunk.scores();
  const Matrix<Scalar> d_contexts = context_gradients(op, chunk);
  AttentionBackwardScratch<Scalar> scratch;
  scratch.scores = op.out.template scratch<Wide<Scalar>>(scores);
  scratch.d_probabilities = op.out.template scratch<Wide<Scalar>>(scores);
  scratch.probabilities = op.out.template scratch<Scalar>(scores);
  scratch.d_scores = op.out.template scratch<Scalar>(scores);
  const AttentionForward<Scalar> forward{ProjectionColumns<const Scalar>(s, op.read(TensorKind::QueryKeyValue)),
                                         op.template read<Wide<Scalar>>(TensorKind::LogSumExp)};
  record_heads_backward(op.out, chunk, forward, Matrix<const Scalar>(d_contexts), scratch,
                        ProjectionColumns<Scalar>(s, d_projected));
}

// The gradients of the projections' results: in memory of the op, or where the op or its other half finds them.
template <class Scalar>
Scalar* projected_gradients(const DeviceOp<Scalar>& op, bool projects) {
  const Role role = gradient_of(TensorKind::QueryKeyValue);
  const std::int64_t size = op.shape.sequence_tokens() * op.shape.projected_width();
  if (op.op.half == Half::Weights) return projects ? op.data(op.read_id(role)) : nullptr;
  return projects && op.op.half == Half::Both ? op.out.template scratch<Scalar>(size) : op.write(role);
}

// All tokens together are projected first; a chunk reads and writes what projection ops have written.
template <class Scalar>
void record_attention_backward(const DeviceOp<Scalar>& op) {
  const LayerShape& s = op.shape;
  const Half half = op.op.half;
  const bool projects = half == Half::Inputs ? op.find_write(gradient_of(TensorKind::AttentionInput)).exists()
                                             : op.find_read(roles::attention_input).exists();
  const AttentionChunk chunk(s, op.part.positions, score_bytes<Scalar>);
  Scalar* const d_projected = projected_gradients(op, projects);
  if (half != Half::Weights && op.part.chunk <= 0) op.out.zero(d_projected, s.sequence_tokens() * s.projected_width());
  if (half != Half::Inputs) {
    Scalar* const gradients = weight_gradients(op);
    output_weight_gradients(op, chunk, projects ? DenseWeights<Scalar>(s, gradients).output.data : gradients);
  }
  if (half != Half::Weights) attend_backward(op, chunk, d_projected);
  if (projects) project_backward<Scalar>(op, d_projected);
}

}  // namespace

template <class Scalar>
void record_projection(DeviceOp<Scalar>& op) {
  if (op.shape.makes_low_ranks()) return record_latent_projection(op);
  if (op.op.phase == Phase::Backward) return project_backward(op, op.read(gradient_of(TensorKind::QueryKeyValue)));
  project(op, op.read(roles::attention_input), op.read(TensorKind::DenseWeights), op.write(TensorKind::QueryKeyValue));
}

template <class Scalar>
void record_attention(DeviceOp<Scalar>& op) {
  if (op.op.phase == Phase::Backward) return record_attention_backward(op);
  const bool projects = op.find_write(TensorKind::QueryKeyValue).exists();
  const Scalar* const weights = op.data(op.find_read(TensorKind::DenseWeights));
  if (projects) project(op, op.read(roles::attention_input), weights, op.write(TensorKind::QueryKeyValue));
  attend<Scalar>(op, projects ? op.write(TensorKind::QueryKeyValue) : op.read(TensorKind::QueryKeyValue), weights,
                 op.write(TensorKind::AttentionContext), op.template write<Wide<Scalar>>(TensorKind::LogSumExp),
                 op.data(op.find_write(TensorKind::AttentionPartial)));
}

DOVETAIL_FOR_DEVICE(record_projection);
DOVETAIL_FOR_DEVICE(record_attention);

}  // namespace dovetail::exec

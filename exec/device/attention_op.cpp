// Attention by products over whole heads: scores of all queries of a chunk with all keys up to its last, softmax with
// the causal offset, and the backward pass from log_sum_exp. Heads that share a key head are multiplied one after
// another, those that do not in one batch.
#include "exec/device/attention_heads.hpp"
#include "exec/device/device_op.hpp"
#include "exec/device/rotary.hpp"
#include "exec/device/token_order.hpp"
#include "exec/host/host_kernels.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

// visit(first token of the sample)
template <class Visit>
void for_each_sample(const LayerShape& s, Visit visit) {
  for (std::int64_t sample = 0; sample < s.samples; ++sample) visit(sample, sample * s.sequence);
}

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

// Adds to the gradients of the projections' weights.
template <class Scalar>
void project_backward(const DeviceOp<Scalar>& op, const Scalar* d_projected, const Scalar* input, const Scalar* weights,
                      Scalar* gradients, Scalar* d_input) {
  const LayerShape& s = op.shape;
  const DenseWeights<const Scalar> w(s, weights);
  const DenseWeights<Scalar> g(s, gradients);
  const ProjectionColumns<const Scalar> d = before_turn(op, d_projected);
  const Matrix<const Scalar> x = ordered_rows(op, input, op.shape.hidden);
  op.out.multiply(product<Scalar>(transposed(x), d.query, g.query, Into::Add));
  op.out.multiply(product<Scalar>(transposed(x), d.key, g.key, Into::Add));
  op.out.multiply(product<Scalar>(transposed(x), d.value, g.value, Into::Add));
  const RowsToReturn<Scalar> ordered(op, d_input, x.cols);
  const Matrix<Scalar>& d_x = ordered.rows();
  op.out.multiply(product<Scalar>(d.query, transposed(w.query), d_x));
  op.out.multiply(product<Scalar>(d.key, transposed(w.key), d_x, Into::Add));
  op.out.multiply(product<Scalar>(d.value, transposed(w.value), d_x, Into::Add));
  ordered.give();
}

// Without the output's projection if `partial` is null.
template <class Scalar>
void attend(const DeviceOp<Scalar>& op, const Scalar* projected, const Scalar* weights, Scalar* context,
            Wide<Scalar>* log_sum_exp, Scalar* partial) {
  const LayerShape& s = op.shape;
  const RowRange positions = op.part.positions;
  const ProjectionColumns<const Scalar> qkv(s, projected);
  const Matrix<Scalar> contexts(context, s.sequence_tokens(), s.context_width());
  const CausalRows rows{positions.first, positions.size(), s.heads};
  Wide<Scalar>* const scores = op.out.template scratch<Wide<Scalar>>(rows.heads * rows.count * rows.keys());
  Scalar* const p = op.out.template scratch<Scalar>(rows.heads * rows.count * rows.keys());
  for_each_sample(s, [&](std::int64_t sample, std::int64_t token) {
    const SampleChunk<Scalar> c{AttentionHeads(s), rows, token};
    record_heads(op.out, c, qkv, AttentionScratch<Scalar>{scores, p}, log_sum_exp + token * s.heads, contexts);
    if (partial == nullptr) return;
    op.out.multiply(product<Scalar>(
        contexts.rows_from(token + rows.first, rows.count), DenseWeights<const Scalar>(s, weights).output,
        Matrix<Scalar>(partial, s.samples * rows.count, s.hidden).rows_from(sample * rows.count, rows.count)));
  });
}

template <class Scalar>
struct AttentionGradients {
  Scalar *projected, *output_weights;  // both added to
};

template <class Scalar>
void attend_backward(const DeviceOp<Scalar>& op, const Scalar* d_partial, const Scalar* projected,
                     const Scalar* context, const Wide<Scalar>* log_sum_exp, const Scalar* weights,
                     const AttentionGradients<Scalar>& to) {
  const LayerShape& s = op.shape;
  const CausalRows rows{op.part.positions.first, op.part.positions.size(), s.heads};
  const std::int64_t scores_size = rows.heads * rows.count * rows.keys();
  const ProjectionColumns<const Scalar> qkv(s, projected);
  const ProjectionColumns<Scalar> d_qkv(s, to.projected);
  const Matrix<const Scalar> contexts(context, s.sequence_tokens(), s.context_width());
  const Matrix<Scalar> d_contexts(op.out.template scratch<Scalar>(s.sequence_tokens() * s.context_width()),
                                  s.sequence_tokens(), s.context_width());
  Wide<Scalar>* const scores = op.out.template scratch<Wide<Scalar>>(scores_size);
  Wide<Scalar>* const d_p = op.out.template scratch<Wide<Scalar>>(scores_size);
  Scalar* const p = op.out.template scratch<Scalar>(scores_size);
  Scalar* const d_s = op.out.template scratch<Scalar>(scores_size);
  for_each_sample(s, [&](std::int64_t sample, std::int64_t token) {
    const SampleChunk<Scalar> c{AttentionHeads(s), rows, token};
    const auto d_out =
        Matrix<const Scalar>(d_partial, s.samples * rows.count, s.hidden).rows_from(sample * rows.count, rows.count);
    const Matrix<Scalar> d_context = d_contexts.rows_from(token + rows.first, rows.count);
    op.out.multiply(product<Scalar>(transposed(contexts.rows_from(token + rows.first, rows.count)), d_out,
                                    Matrix<Scalar>(to.output_weights, s.context_width(), s.hidden), Into::Add));
    op.out.multiply(product<Scalar>(d_out, transposed(DenseWeights<const Scalar>(s, weights).output), d_context));
    record_heads_backward(op.out, c, AttentionForward<Scalar>{qkv, log_sum_exp + token * s.heads},
                          Matrix<const Scalar>(d_contexts), AttentionBackwardScratch<Scalar>{scores, d_p, p, d_s},
                          d_qkv);
  });
}

}  // namespace

template <class Scalar>
void record_projection(DeviceOp<Scalar>& op) {
  if (op.shape.makes_low_ranks()) return record_latent_projection(op);
  const Scalar *const input = op.read(roles::attention_input), *const weights = op.read(TensorKind::DenseWeights);
  if (op.op.phase == Phase::Forward) return project(op, input, weights, op.write(TensorKind::QueryKeyValue));
  project_backward(op, op.read(gradient_of(TensorKind::QueryKeyValue)), input, weights,
                   op.write(TensorKind::DenseGradients) + op.op.gradients.first,
                   op.write(gradient_of(TensorKind::AttentionInput)));
}

// All tokens together are projected first; a chunk reads and writes what projection ops have written.
template <class Scalar>
void record_attention(DeviceOp<Scalar>& op) {
  using Number = Wide<Scalar>;
  const bool projects = op.op.phase == Phase::Forward ? op.find_write(TensorKind::QueryKeyValue).exists()
                                                      : op.find_read(roles::attention_input).exists();
  const Scalar* const weights = op.data(op.find_read(TensorKind::DenseWeights));
  if (op.op.phase == Phase::Forward) {
    if (projects) project(op, op.read(roles::attention_input), weights, op.write(TensorKind::QueryKeyValue));
    attend<Scalar>(op, projects ? op.write(TensorKind::QueryKeyValue) : op.read(TensorKind::QueryKeyValue), weights,
                   op.write(TensorKind::AttentionContext), op.template write<Number>(TensorKind::LogSumExp),
                   op.data(op.find_write(TensorKind::AttentionPartial)));
    return;
  }
  const std::int64_t size = op.shape.sequence_tokens() * op.shape.projected_width();
  Scalar* const gradients = op.write(TensorKind::DenseGradients) + op.op.gradients.first;
  Scalar* const d_projected =
      projects ? op.out.template scratch<Scalar>(size) : op.write(gradient_of(TensorKind::QueryKeyValue));
  if (op.part.chunk <= 0) op.out.zero(d_projected, size);
  attend_backward(op, op.read(roles::d_attention_partial), op.read(TensorKind::QueryKeyValue),
                  op.read(TensorKind::AttentionContext), op.template read<Number>(TensorKind::LogSumExp), weights,
                  AttentionGradients<Scalar>{
                      d_projected, projects ? DenseWeights<Scalar>(op.shape, gradients).output.data : gradients});
  if (projects)
    project_backward<Scalar>(op, d_projected, op.read(roles::attention_input), weights, gradients,
                             op.write(gradient_of(TensorKind::AttentionInput)));
}

DOVETAIL_FOR_DEVICE(record_projection);
DOVETAIL_FOR_DEVICE(record_attention);

}  // namespace dovetail::exec

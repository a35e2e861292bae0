// SPDX-License-Identifier: Apache-2.0
// Norms (those of queries and keys too), embedding, output head and loss.
#include <array>

#include "exec/device/device_op.hpp"
#include "exec/device/end_bodies.hpp"
#include "exec/device/rotary.hpp"

namespace dovetail::exec {
namespace {

template <class Scalar>
const Scalar* norm_weights(const DeviceOp<Scalar>& op) {
  return op.read(TensorKind::NormWeights) + first_norm_weight(op);
}

// Adds the gradient that comes past the norm. Its chunks of tokens follow one another.
template <class Scalar>
void add_past_norm(const DeviceOp<Scalar>& op, Scalar* d_x) {
  std::int64_t done = 0;
  for (TensorId past : op.all_reads(roles::past_norm)) {
    const bool part = op.part.chunk >= 0 || op.tensor(past).chunk < 0;
    const std::int64_t count = part ? op.shape.tokens * op.shape.hidden : op.tensor(past).elements;
    record_sum<Scalar>(op.out, d_x + done, tokens_of(op, past), d_x + done, count);
    done += count;
  }
}

// With the gradient of the weights, which is added to.
template <class Scalar>
void rows_backward(const DeviceOp<Scalar>& op, NormRowsBackward<Scalar> body, std::int64_t rows, Scalar* d_weights) {
  using Number = Wide<Scalar>;
  const std::int64_t segments = (rows + NormWeightParts<Scalar>::segment - 1) / NormWeightParts<Scalar>::segment;
  body.inverse = op.out.template scratch<Number>(rows);
  auto* const parts = op.out.template scratch<Number>(segments * body.cols);
  op.out.launch(rows, body);
  op.out.launch(segments * body.cols,
                NormWeightParts<Scalar>{body.x, body.d_y, body.inverse, rows, body.cols, parts, body.from});
  op.out.launch(body.cols, AddNormWeightParts<Scalar>{parts, segments, body.cols, d_weights});
}

// Multi-token prediction's input (T, 2M) has the results of two norms side by side.
template <class Scalar>
void input_norm_forward(const DeviceOp<Scalar>& op) {
  const std::int64_t cols = op.shape.hidden;
  op.out.launch(op.shape.tokens, NormRows<Scalar>{read_tokens(op, roles::before_mtp_norm),
                                                  norm_weights(op),
                                                  cols,
                                                  op.write(TensorKind::MtpInput) + input_half(op) * cols,
                                                  {},
                                                  {1, 2 * cols}});
}
template <class Scalar>
void input_norm_backward(const DeviceOp<Scalar>& op, const Scalar* d_input) {
  const std::int64_t rows = op.shape.tokens, cols = op.shape.hidden;
  Scalar* const d_normed = op.out.template scratch<Scalar>(rows * cols);
  op.out.launch(rows, CopyColumns<Scalar>{d_input + input_half(op) * cols, 2 * cols, d_normed, cols, cols});
  rows_backward(op,
                NormRowsBackward<Scalar>{read_tokens(op, roles::before_mtp_norm), norm_weights(op), d_normed, cols,
                                         write_tokens(op, gradient_of(roles::before_mtp_norm)), nullptr},
                rows, op.write(TensorKind::ReplicatedGradients) + op.op.gradients.first);
}

template <class Scalar>
void norm_backward(const DeviceOp<Scalar>& op) {
  if (const TensorId d_input = op.find_read(gradient_of(TensorKind::MtpInput)); d_input.exists())
    return input_norm_backward<Scalar>(op, op.data(d_input));
  Scalar* const d_x = write_tokens(op, gradient_of(roles::before_norm));
  rows_backward(op,
                NormRowsBackward<Scalar>{read_tokens(op, roles::before_norm), norm_weights(op),
                                         read_tokens(op, roles::d_normed), op.shape.hidden, d_x, nullptr},
                op.shape.tokens, op.write(TensorKind::ReplicatedGradients) + op.op.gradients.first);
  add_past_norm(op, d_x);
}

// Queries and keys stand side by side in rows of other lengths, before their norms without values. Each of the two is
// so many rows of a norm. Low ranks of latent attention alike, of which there may be one.
template <class Scalar>
struct NormedColumns {
  std::int64_t first, cols, weights;  // weights: where they begin
  NormLayout input, normed;
};
template <class Scalar>
std::array<NormedColumns<Scalar>, 2> low_rank_columns(const LayerShape& s) {
  const std::int64_t q = s.latent.q_rank, before = q + s.latent.kv_rank;
  const bool packs = q % pack_size<Scalar> == 0;
  const NormLayout input{1, before, packs}, normed{1, s.low_rank_width(), packs};
  return {{{0, q, 0, input, normed}, {q, s.latent.kv_rank, q, input, normed}}};
}
template <class Scalar>
std::array<NormedColumns<Scalar>, 2> query_key_columns(const LayerShape& s) {
  if (s.makes_low_ranks()) return low_rank_columns<Scalar>(s);
  const std::int64_t queries = s.query_width(), keys = s.key_width(), before = queries + keys, all = before + keys;
  const auto layout = [](std::int64_t width, std::int64_t cols, std::int64_t length) {
    return NormLayout{width / cols, length};
  };
  const std::int64_t q = s.query_norm(), k = s.key_norm();
  return {{{0, q, 0, layout(queries, q, before), layout(queries, q, all)},
           {queries, k, q, layout(keys, k, before), layout(keys, k, all)}}};
}

// The columns that have norms, of queries, keys and values or of low ranks, and how many rows of them there are.
std::int64_t normed_rows(const LayerShape& s) {
  return s.makes_low_ranks() ? s.rank_tokens : s.sequence_tokens();
}
std::int64_t normed_width(const LayerShape& s) {
  return s.makes_low_ranks() ? s.latent.q_rank + s.latent.kv_rank : s.query_width() + s.key_width();
}
template <class Scalar>
void copy_normed_columns(const DeviceOp<Scalar>& op, const Scalar* values, Scalar* to) {
  const LayerShape& s = op.shape;
  const std::int64_t cols = normed_width(s), length = s.makes_low_ranks() ? s.low_rank_width() : s.projected_width();
  op.out.launch(normed_rows(s), CopyColumns<Scalar>{values, length, to, cols, cols});
}

template <class Scalar>
void query_key_norm_backward(const DeviceOp<Scalar>& op) {
  const LayerShape& s = op.shape;
  const Scalar *const x = op.read(TensorKind::QueryKeyInput), *const weights =
                                                                  op.read(TensorKind::NormWeights) + 2 * s.hidden;
  Scalar* const d = op.write(gradient_of(roles::query_key_normed));
  Scalar* const d_y = op.out.template scratch<Scalar>(normed_rows(s) * normed_width(s));
  if (s.turns_normed()) {
    const ProjectionColumns<Scalar> turned(s, d);
    const Matrix<Scalar> normed(d_y, s.sequence_tokens(), s.query_width() + s.key_width());
    record_turn<Scalar>(op.out, s, Turn::Back, {turned.query, turned.key},
                        {normed.cols_from(0, s.query_width()), normed.cols_from(s.query_width(), s.key_width())});
  } else {
    copy_normed_columns<Scalar>(op, d, d_y);
  }
  for (const NormedColumns<Scalar>& c : query_key_columns<Scalar>(s))
    if (c.cols > 0)
      rows_backward(op,
                    NormRowsBackward<Scalar>{x + c.first, weights + c.weights, d_y + c.first, c.cols, d + c.first,
                                             nullptr, c.input, c.normed},
                    normed_rows(s) * c.input.rows,
                    op.write(TensorKind::ReplicatedGradients) + op.op.gradients.first + c.weights);
}

template <class Scalar>
DeviceWords<Scalar> words_of(const DeviceOp<Scalar>& op) {
  const WordShare share = word_share(op);
  return {op.template read<Wide<Scalar>>(TensorKind::Tokens),
          op.out.table(std::vector<std::int64_t>(op.rows.begin(), op.rows.end())),
          std::ssize(op.rows),
          share.first,
          share.count,
          op.shape.sequence,
          op.depth};
}

// (L, 2M) by (2M, M / mp).
template <class Scalar>
Matrix<const Scalar> prediction_input(const DeviceOp<Scalar>& op) {
  return {op.read(roles::mtp_input), op.shape.sequence_tokens(), 2 * op.shape.hidden};
}
template <class Scalar>
Matrix<const Scalar> prediction_weights(const DeviceOp<Scalar>& op) {
  return {op.read(TensorKind::DenseWeights) + parameters_before_projection(op), 2 * op.shape.hidden,
          op.shape.hidden / op.schedule.groups.mp};
}

template <class Scalar>
void prediction_backward(const DeviceOp<Scalar>& op) {
  const Matrix<const Scalar> weights = prediction_weights(op);
  const std::int64_t rows = op.shape.sequence_tokens();
  const Matrix<const Scalar> d_columns(op.read(gradient_of(roles::mtp_output)), rows, weights.cols);
  const Matrix<Scalar> d_weights(op.write(TensorKind::DenseGradients) + op.op.gradients.first, weights.rows,
                                 weights.cols);
  op.out.multiply(product<Scalar>(transposed(prediction_input(op)), d_columns, d_weights, Into::Add));
  const Matrix<Scalar> d_input(op.write(gradient_of(roles::mtp_input)), rows, weights.rows);
  op.out.multiply(product<Scalar>(d_columns, transposed(weights), d_input));
}

template <class Scalar>
Matrix<const Scalar> head_input(const DeviceOp<Scalar>& op) {
  return {op.read(roles::head_input), op.shape.sequence_tokens(), op.shape.hidden};
}
template <class Scalar>
Matrix<const Scalar> head_weights(const DeviceOp<Scalar>& op) {
  return {op.read(roles::head_weights), op.words, op.shape.hidden};
}

template <class Scalar>
void head_backward(const DeviceOp<Scalar>& op) {
  const Matrix<const Scalar> d_logits(op.data(op.source()), op.shape.sequence_tokens(), op.words);
  const Matrix<Scalar> d_weights(op.write(TensorKind::DenseGradients) + op.op.gradients.first, op.words,
                                 op.shape.hidden);
  op.out.multiply(product<Scalar>(transposed(d_logits), head_input(op), d_weights, Into::Add));
  const Matrix<Scalar> d_input(op.write(gradient_of(TensorKind::HeadInput)), op.shape.sequence_tokens(),
                               op.shape.hidden);
  op.out.multiply(product<Scalar>(d_logits, head_weights(op), d_input));
}

}  // namespace

template <class Scalar>
void record_norm(DeviceOp<Scalar>& op) {
  if (op.op.phase == Phase::Backward) return norm_backward(op);
  if (op.find_write(TensorKind::MtpInput).exists()) return input_norm_forward(op);
  op.out.launch(op.shape.tokens, NormRows<Scalar>{read_tokens(op, roles::before_norm), norm_weights(op),
                                                  op.shape.hidden, write_tokens(op, roles::normed)});
}

template <class Scalar>
void record_query_key_norm(DeviceOp<Scalar>& op) {
  if (op.op.phase == Phase::Backward) return query_key_norm_backward(op);
  Scalar *const normed = op.write(roles::query_key_normed), *const x = op.write(TensorKind::QueryKeyInput);
  const Scalar* const weights = op.read(TensorKind::NormWeights) + 2 * op.shape.hidden;
  copy_normed_columns<Scalar>(op, normed, x);
  for (const NormedColumns<Scalar>& c : query_key_columns<Scalar>(op.shape))
    if (c.cols > 0)
      op.out.launch(normed_rows(op.shape) * c.input.rows,
                    NormRows<Scalar>{x + c.first, weights + c.weights, c.cols, normed + c.first, c.input, c.normed});
  if (!op.shape.turns_normed()) return;
  const ProjectionColumns<Scalar> turned(op.shape, normed);
  record_turn<Scalar>(op.out, op.shape, Turn::On, {turned.query, turned.key}, {turned.query, turned.key});
}

template <class Scalar>
void record_embedding(DeviceOp<Scalar>& op) {
  const DeviceWords<Scalar> words = words_of(op);
  if (op.op.phase == Phase::Forward)
    return op.out.launch(words.positions, LookUpWords<Scalar>{words, op.read(TensorKind::EmbeddingWeights),
                                                              op.shape.hidden, op.data(op.result())});
  auto* const next = op.out.template scratch<std::int32_t>(words.positions);
  auto* const not_first = op.out.template scratch<std::int32_t>(words.positions);
  op.out.launch(words.positions, LinkSameWords<Scalar>{words, next, not_first});
  op.out.launch(words.positions, AddToWords<Scalar>{words, next, not_first, op.data(op.source()), op.shape.hidden,
                                                    op.write(TensorKind::DenseGradients) + op.op.gradients.first});
}

template <class Scalar>
void record_mtp_projection(DeviceOp<Scalar>& op) {
  if (op.op.phase == Phase::Backward) return prediction_backward(op);
  const Matrix<const Scalar> weights = prediction_weights(op);
  const Matrix<Scalar> output(op.write(roles::mtp_output), op.shape.sequence_tokens(), weights.cols);
  op.out.multiply(product<Scalar>(prediction_input(op), weights, output));
}

template <class Scalar>
void record_output_head(DeviceOp<Scalar>& op) {
  if (op.op.phase == Phase::Backward) return head_backward(op);
  const Matrix<Scalar> logits(op.data(op.result()), op.shape.sequence_tokens(), op.words);
  op.out.multiply(product<Scalar>(head_input(op), transposed(head_weights(op)), logits));
}

template <class Scalar>
void record_loss_statistics(DeviceOp<Scalar>& op) {
  const DeviceWords<Scalar> words = words_of(op);
  op.out.launch(words.positions, LossStatisticsOf<Scalar>{words, op.data(op.source()),
                                                          op.template write<Wide<Scalar>>(TensorKind::LossStatistics)});
}

template <class Scalar>
void record_loss(DeviceOp<Scalar>& op) {
  using Number = Wide<Scalar>;
  const DeviceWords<Scalar> words = words_of(op);
  const auto of_step = static_cast<Number>(words.positions * op.schedule.groups.dp * op.schedule.micro_batches);
  op.out.launch(words.positions, LossOf<Scalar>{words, op.template data<Number>(op.source()), word_share(op).ranks,
                                                1 / of_step, op.template write<Number>(TensorKind::Loss),
                                                op.data(op.find_write(TensorKind::Logits))});
}

DOVETAIL_FOR_DEVICE(record_norm);
DOVETAIL_FOR_DEVICE(record_query_key_norm);
DOVETAIL_FOR_DEVICE(record_embedding);
DOVETAIL_FOR_DEVICE(record_mtp_projection);
DOVETAIL_FOR_DEVICE(record_output_head);
DOVETAIL_FOR_DEVICE(record_loss_statistics);
DOVETAIL_FOR_DEVICE(record_loss);

}  // namespace dovetail::exec

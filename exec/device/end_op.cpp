// Norms, embedding, output head and loss.
#include "exec/device/device_op.hpp"
#include "exec/device/end_bodies.hpp"

namespace dovetail::exec {
namespace {

// A layer's second norm has the second half.
template <class Scalar>
const Scalar* norm_weights(const DeviceOp<Scalar>& op) {
  const bool second = op.find_read(TensorKind::MoeInput).exists();
  return op.read(TensorKind::NormWeights) + (second ? op.shape.hidden : 0);
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

template <class Scalar>
void norm_backward(const DeviceOp<Scalar>& op) {
  using Number = Wide<Scalar>;
  const std::int64_t rows = op.shape.tokens, cols = op.shape.hidden;
  const std::int64_t segments = (rows + NormWeightParts<Scalar>::segment - 1) / NormWeightParts<Scalar>::segment;
  const Scalar *const x = read_tokens(op, roles::before_norm), *const d_y = read_tokens(op, roles::d_normed);
  Scalar* const d_x = write_tokens(op, gradient_of(roles::before_norm));
  auto* const inverse = op.out.template scratch<Number>(rows);
  auto* const parts = op.out.template scratch<Number>(segments * cols);
  op.out.launch(rows, NormRowsBackward<Scalar>{x, norm_weights(op), d_y, cols, d_x, inverse});
  op.out.launch(segments * cols, NormWeightParts<Scalar>{x, d_y, inverse, rows, cols, parts});
  op.out.launch(cols, AddNormWeightParts<Scalar>{parts, segments, cols,
                                                 op.write(TensorKind::ReplicatedGradients) + op.op.gradients.first});
  add_past_norm(op, d_x);
}

template <class Scalar>
DeviceWords<Scalar> words_of(const DeviceOp<Scalar>& op) {
  const WordShare share = word_share(op);
  return {op.template read<Wide<Scalar>>(TensorKind::Tokens),
          op.out.table(std::vector<std::int64_t>(op.rows.begin(), op.rows.end())), std::ssize(op.rows), share.first,
          share.count};
}

template <class Scalar>
Matrix<const Scalar> head_input(const DeviceOp<Scalar>& op) {
  return {op.read(roles::head_input), op.shape.sequence_tokens(), op.shape.hidden};
}
template <class Scalar>
Matrix<const Scalar> head_weights(const DeviceOp<Scalar>& op) {
  return {op.read(TensorKind::HeadWeights), op.words, op.shape.hidden};
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
  op.out.launch(op.shape.tokens, NormRows<Scalar>{read_tokens(op, roles::before_norm), norm_weights(op),
                                                  op.shape.hidden, write_tokens(op, roles::normed)});
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
DOVETAIL_FOR_DEVICE(record_embedding);
DOVETAIL_FOR_DEVICE(record_output_head);
DOVETAIL_FOR_DEVICE(record_loss_statistics);
DOVETAIL_FOR_DEVICE(record_loss);

}  // namespace dovetail::exec

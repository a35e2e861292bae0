// SPDX-License-Identifier: Apache-2.0
// Expert feed-forward networks. A chunk has its rows source by source; an expert's rows are brought together first, so
// that each product has all of them and equal ones are a batch, and results go back. Hidden rows stay by expert, since
// only these ops read them. One local expert, or one source, moves nothing.
//
// Each row is moved twice forward and three times backward, which reads and writes 20 M bytes in bf16; a gated expert
// does 18 M S operations with it. At 4 TB/s and 650 TFLOP/s the moves take 9 % of the products' time where S is 2,048,
// and 1.3 % where it is 14,336.
#include <algorithm>

#include "exec/device/device_op.hpp"
#include "exec/device/expert_bodies.hpp"
#include "exec/step/row_runs.hpp"

namespace dovetail::exec {
namespace {

// The weights of all experts of one shard.
template <class Scalar>
struct ShardWeights {
  Matrix<Scalar> w1, w2, w3;  // of expert 0; w3: gated only
  ShardWeights(const LayerShape& s, Scalar* all, std::int64_t shard) {
    Scalar* const first = all + shard * s.local_experts * s.expert_parameters();
    const std::int64_t size = s.hidden * s.shard;
    w1 = {first, s.hidden, s.shard};
    w2 = {first + size, s.shard, s.hidden};
    if (s.gated) w3 = {first + 2 * size, s.hidden, s.shard};
  }
};

// Rows of a buffer of rows with `cols` columns each, `width` of them from `col` on.
template <class Scalar>
struct RowBuffer {
  Scalar* data = nullptr;
  std::int64_t cols = 0, col = 0, width = 0;
  Matrix<Scalar> rows(std::int64_t first, std::int64_t count) const {
    return {data + first * cols + col, count, width, cols};
  }
  RowBuffer shifted(std::int64_t columns) const { return {data, cols, col + columns, width}; }
};
template <class Scalar>
RowBuffer<Scalar> shard_columns(Scalar* data, const LayerShape& s, std::int64_t shard, std::int64_t width) {
  return {data, s.weight_shards * width, shard * width, s.shard};
}

// The common work of W1 and W3: `count` products whose weights and columns are so many elements apart.
struct Twins {
  std::int64_t count = 1, weights = 0, columns = 0;
};
Twins inner_weights(const LayerShape& s) {
  return {s.gated ? 2 : 1, 2 * s.hidden * s.shard, s.shard};
}

// add(how many-th twin, batch): in one batch of them where there is one expert, else in one over the
// experts for each.
template <class Add>
void for_batches(Twins twins, const RunBatch& r, Batch over_twins, Batch over_experts, Add add) {
  if (r.count == 1) return add(0, over_twins);
  for (std::int64_t i = 0; i < twins.count; ++i) add(i, over_experts);
}

// to = from weights for the rows of all experts (or its transpose's product).
template <class Scalar>
void rows_by_weights(Recorder& out, const LayerShape& s, const std::vector<RunBatch>& runs,
                     RowBuffer<const Scalar> from, Matrix<const Scalar> weights, bool transposed_weights,
                     RowBuffer<Scalar> to, Into into, Twins twins = {}) {
  for (const RunBatch& r : runs)
    for_batches(twins, r, {twins.count, 0, twins.weights, twins.columns},
                {r.count, r.a_step * from.cols, r.expert_step * s.expert_parameters(), r.a_step * to.cols},
                [&](std::int64_t i, const Batch& batch) {
                  const Matrix<const Scalar> w(
                      weights.data + r.first_expert * s.expert_parameters() + i * twins.weights, weights.rows,
                      weights.cols);
                  out.multiply(product<Scalar>(from.rows(r.first_a, r.rows), Factor<Scalar>(w, transposed_weights),
                                               to.shifted(i * twins.columns).rows(r.first_a, r.rows), into, batch));
                });
}

// gradient += left' right, expert by expert.
template <class Scalar>
void weight_gradient(Recorder& out, const LayerShape& s, const std::vector<RunBatch>& runs,
                     RowBuffer<const Scalar> left, RowBuffer<const Scalar> right, Matrix<Scalar> gradient,
                     Twins twins = {}) {
  for (const RunBatch& r : runs)
    for_batches(
        twins, r, {twins.count, 0, twins.columns, twins.weights},
        {r.count, r.a_step * left.cols, r.a_step * right.cols, r.expert_step * s.expert_parameters()},
        [&](std::int64_t i, const Batch& batch) {
          const Matrix<Scalar> to(gradient.data + r.first_expert * s.expert_parameters() + i * twins.weights,
                                  gradient.rows, gradient.cols);
          out.multiply(product<Scalar>(transposed(left.rows(r.first_a, r.rows)),
                                       right.shifted(i * twins.columns).rows(r.first_a, r.rows), to, Into::Add, batch));
        });
}

std::int64_t rows_of(const LayerShape& s, RowRange range) {
  return s.row_copies * s.positions() * range.size();
}

template <class Scalar>
RowBuffer<const Scalar> constant(RowBuffer<Scalar> b) {
  return {b.data, b.cols, b.col, b.width};
}

// Whether blocks (source, expert) of a chunk are worked on as blocks (expert, source).
bool by_expert(const LayerShape& s) {
  return s.row_copies > 1 && s.positions() > 1 && !s.block_gemms;
}

// Runs in the order that rows are worked on in.
std::vector<RunBatch> runs_of(const LayerShape& s, RowRange rows, BatchOf what) {
  if (!by_expert(s)) return run_batches(s, rows, rows, what);
  LayerShape together = s;
  together.row_copies = 1;
  const RowRange all{0, s.row_copies * rows.size()};
  return run_batches(together, all, all, what);
}

bool same(RowRange a, RowRange b) {
  return a.first == b.first && a.last == b.last;
}

SharedRows shared_rows(RowRange a, RowRange b) {
  const std::int64_t first = std::max(a.first, b.first), last = std::min(a.last, b.last);
  return {static_cast<std::uint32_t>(last - first), static_cast<std::uint32_t>(first - a.first),
          static_cast<std::uint32_t>(a.size()), static_cast<std::uint32_t>(first - b.first),
          static_cast<std::uint32_t>(b.size())};
}

// Rows of chunk a, as it lies, to their places among those of b that are worked on.
template <class Scalar>
void record_bring(Recorder& out, const LayerShape& s, RowRange a, RowRange b, const Scalar* from, Scalar* to) {
  const SharedRows shared = shared_rows(a, b);
  const auto sources = static_cast<std::uint32_t>(s.row_copies), experts = static_cast<std::uint32_t>(s.positions());
  const BlockOrder order = by_expert(s) ? BlockOrder{sources, experts} : BlockOrder{sources * experts, 1};
  out.launch(std::int64_t{sources} * experts * shared.shared, MoveBlocks<Scalar>{shared, order, from, to, s.hidden});
}

// Returns a chunk's rows from the place at which they are worked on.
template <class Scalar>
void record_return(Recorder& out, const LayerShape& s, RowRange rows, const Scalar* from, Scalar* to) {
  const BlockOrder order{static_cast<std::uint32_t>(s.positions()), static_cast<std::uint32_t>(s.row_copies)};
  out.launch(rows_of(s, rows), MoveBlocks<Scalar>{shared_rows(rows, rows), order, from, to, s.hidden});
}

// Memory for rows by expert; null where they are worked on as they lie.
template <class Scalar>
Scalar* memory_by_expert(Recorder& out, const LayerShape& s, RowRange rows) {
  return by_expert(s) ? out.scratch<Scalar>(rows_of(s, rows) * s.hidden) : nullptr;
}

// `x`: the rows that are worked on.
template <class Scalar>
void record_hidden(Recorder& out, const LayerShape& s, RowRange rows, const Scalar* x, const Scalar* weights,
                   Scalar* hidden) {
  const std::vector<RunBatch> runs = runs_of(s, rows, BatchOf::Rows);
  for (std::int64_t shard = 0; shard < s.weight_shards; ++shard)
    rows_by_weights(out, s, runs, RowBuffer<const Scalar>{x, s.hidden, 0, s.hidden},
                    ShardWeights<const Scalar>(s, weights, shard).w1, false,
                    shard_columns(hidden, s, shard, s.hidden_width()), Into::Overwrite, inner_weights(s));
  if (!s.gated)
    launch_packed<Scalar>(out, rows_of(s, rows) * s.hidden_row(),
                          [&]<int size>() { return Relu<Scalar, size>{hidden}; });
}

// The input of W2: the hidden rows themselves, or `activated` or, if that is null, scratch. `scores`, of the rows as
// they are worked on, may be null.
template <class Scalar>
const Scalar* record_activation(Recorder& out, const LayerShape& s, RowRange rows, const Scalar* hidden,
                                const Wide<Scalar>* scores, Scalar* activated) {
  if (!s.gated && scores == nullptr) return hidden;
  const std::int64_t width = s.weight_shards * s.shard;
  Scalar* const activation = activated != nullptr ? activated : out.scratch<Scalar>(rows_of(s, rows) * width);
  if (s.gated)
    out.launch(rows_of(s, rows), GatedActivation<Scalar>{hidden, activation, s.shard, s.weight_shards, scores});
  else
    out.launch(rows_of(s, rows), ScaleRows<Scalar>{hidden, scores, activation, width});
  return activation;
}

// Rows that belong to nobody's expert.
template <class Scalar>
void clear_unused(Recorder& out, const LayerShape& s, RowRange rows, Scalar* data) {
  for (std::int64_t copy = 0; copy < s.row_copies; ++copy)
    for (std::int64_t position = 0; position < s.positions(); ++position)
      if (s.expert_at(position) < 0)
        out.zero(data + (copy * s.positions() + position) * rows.size() * s.hidden, rows.size() * s.hidden);
}

template <class Scalar>
void record_forward(Recorder& out, const LayerShape& s, RowRange rows, const Scalar* input, const Scalar* weights,
                    const Wide<Scalar>* scores, Scalar* hidden, Scalar* partial, Scalar* activated) {
  Scalar* const memory = memory_by_expert<Scalar>(out, s, rows);  // of the input, then of the result
  if (memory != nullptr) record_bring(out, s, rows, rows, input, memory);
  record_hidden<Scalar>(out, s, rows, memory == nullptr ? input : memory, weights, hidden);
  if (scores != nullptr && memory != nullptr) {
    auto* const by_expert = out.scratch<Wide<Scalar>>(rows_of(s, rows));
    record_bring(out, with_numbers(s), rows, rows, scores, by_expert);
    scores = by_expert;
  }
  const Scalar* const activation = record_activation<Scalar>(out, s, rows, hidden, scores, activated);
  const std::vector<RunBatch> runs = runs_of(s, rows, BatchOf::Rows);
  const RowBuffer<Scalar> result{memory == nullptr ? partial : memory, s.hidden, 0, s.hidden};
  for (std::int64_t shard = 0; shard < s.weight_shards; ++shard)
    rows_by_weights(out, s, runs, shard_columns(activation, s, shard, s.shard),
                    ShardWeights<const Scalar>(s, weights, shard).w2, false, result,
                    shard == 0 ? Into::Overwrite : Into::Add);
  if (memory != nullptr) record_return<Scalar>(out, s, rows, memory, partial);
  clear_unused(out, s, rows, partial);
}

template <class Scalar>
struct ForwardChunk {
  RowRange rows;
  const Scalar *input, *hidden;
  const Scalar* activated;               // null: computed again
  const Wide<Scalar>* scores = nullptr;  // null: decode applies them
};
template <class Scalar>
struct BackwardChunk {
  RowRange rows;
  const Scalar* d_partial;
  const Scalar* weights;
  Scalar *gradient, *d_input, *d_hidden;
  Wide<Scalar>* d_scores = nullptr;  // null: decode applies scores
};

// Rows of the forward chunks as the backward chunk works on them: they are moved unless they lie so.
template <class Scalar>
const Scalar* record_input(Recorder& out, const LayerShape& s, const std::vector<ForwardChunk<Scalar>>& kept,
                           RowRange rows, bool same_rows) {
  if (same_rows && !by_expert(s)) return kept.front().input;
  Scalar* const x = out.scratch<Scalar>(rows_of(s, rows) * s.hidden);
  for (const ForwardChunk<Scalar>& forward : kept) record_bring(out, s, forward.rows, rows, forward.input, x);
  return x;
}

// Scores of the rows that are worked on; null where decode applies scores.
template <class Scalar>
const Wide<Scalar>* record_scores(Recorder& out, const LayerShape& s, const std::vector<ForwardChunk<Scalar>>& kept,
                                  RowRange rows, bool same_rows) {
  if (kept.front().scores == nullptr || (same_rows && !by_expert(s))) return kept.front().scores;
  auto* const scores = out.scratch<Wide<Scalar>>(rows_of(s, rows));
  for (const ForwardChunk<Scalar>& forward : kept)
    record_bring(out, with_numbers(s), forward.rows, rows, forward.scores, scores);
  return scores;
}

// The activation, where the forward pass has kept it as it is: without a gate and without scores the hidden rows are.
template <class Scalar>
const Scalar* kept_activation(const LayerShape& s, const std::vector<ForwardChunk<Scalar>>& kept, bool same_rows) {
  const ForwardChunk<Scalar>& first = kept.front();
  if (!same_rows) return nullptr;
  return s.gated ? first.activated : first.scores == nullptr ? first.hidden : nullptr;
}

// From the activation's gradient, which the activation replaces unless it was kept and `leaves` it, to that of the
// hidden rows.
template <class Scalar>
void record_activation_backward(Recorder& out, const LayerShape& s, const std::vector<ForwardChunk<Scalar>>& kept,
                                const BackwardChunk<Scalar>& b, Scalar* d_activation, bool same_rows, bool leaves) {
  const Wide<Scalar>* const scores = record_scores(out, s, kept, b.rows, same_rows);
  Wide<Scalar>* const d_scores =
      scores != nullptr && by_expert(s) ? out.scratch<Wide<Scalar>>(rows_of(s, b.rows)) : b.d_scores;
  for (const ForwardChunk<Scalar>& forward : kept) {
    const SharedRows shared = shared_rows(forward.rows, b.rows);
    out.launch(s.row_copies * s.positions() * shared.shared,
               ActivationBackward<Scalar>{shared, forward.hidden, d_activation, b.d_hidden, s.shard, s.weight_shards,
                                          s.gated, leaves, forward.activated, scores, d_scores});
  }
  if (d_scores != b.d_scores) record_return<Wide<Scalar>>(out, with_numbers(s), b.rows, d_scores, b.d_scores);
  if (b.d_scores != nullptr) clear_unused(out, with_numbers(s), b.rows, b.d_scores);
}

// The activation as the forward pass had it, for the half of the weights.
template <class Scalar>
const Scalar* record_activation_again(Recorder& out, const LayerShape& s, const std::vector<ForwardChunk<Scalar>>& kept,
                                      RowRange rows, bool same_rows) {
  if (const Scalar* const there = kept_activation(s, kept, same_rows)) return there;
  const bool moves_activated = s.gated && kept.front().activated != nullptr;
  const auto rows_kept = [&](const ForwardChunk<Scalar>& f) { return moves_activated ? f.activated : f.hidden; };
  const Scalar* at_hand = rows_kept(kept.front());
  if (!same_rows) {
    const std::int64_t cols = moves_activated ? s.weight_shards * s.shard : s.hidden_row();
    Scalar* const moved = out.scratch<Scalar>(rows_of(s, rows) * cols);
    for (const ForwardChunk<Scalar>& f : kept) {
      const SharedRows shared = shared_rows(f.rows, rows);
      const auto blocks = static_cast<std::uint32_t>(s.row_copies * s.positions());
      out.launch(std::int64_t{blocks} * shared.shared,
                 MoveBlocks<Scalar>{shared, BlockOrder{blocks, 1}, rows_kept(f), moved, cols});
    }
    at_hand = moved;
  }
  if (moves_activated) return at_hand;
  return record_activation<Scalar>(out, s, rows, at_hand, record_scores(out, s, kept, rows, same_rows), nullptr);
}

template <class Scalar>
void record_gradients(Recorder& out, const LayerShape& s, const BackwardChunk<Scalar>& b, const Scalar* x,
                      const Scalar* activation, const Scalar* d_y) {
  const std::vector<RunBatch> runs = runs_of(s, b.rows, BatchOf::Sums);
  const RowBuffer<const Scalar> in{x, s.hidden, 0, s.hidden}, d_out{d_y, s.hidden, 0, s.hidden};
  for (std::int64_t shard = 0; shard < s.weight_shards; ++shard) {
    const ShardWeights<Scalar> gradient(s, b.gradient, shard);
    weight_gradient(out, s, runs, shard_columns(activation, s, shard, s.shard), d_out, gradient.w2);
    weight_gradient(out, s, runs, in, constant(shard_columns(b.d_hidden, s, shard, s.hidden_width())), gradient.w1,
                    inner_weights(s));
  }
}

template <class Scalar>
void record_input_gradient(Recorder& out, const LayerShape& s, const BackwardChunk<Scalar>& b, Scalar* d_x) {
  const std::vector<RunBatch> runs = runs_of(s, b.rows, BatchOf::Rows);
  const RowBuffer<Scalar> to{d_x, s.hidden, 0, s.hidden};
  for (std::int64_t shard = 0; shard < s.weight_shards; ++shard) {
    const ShardWeights<const Scalar> w(s, b.weights, shard);
    const RowBuffer<const Scalar> d_hidden = constant(shard_columns(b.d_hidden, s, shard, s.hidden_width()));
    rows_by_weights(out, s, runs, d_hidden, w.w1, true, to, shard == 0 ? Into::Overwrite : Into::Add);
    if (s.gated) rows_by_weights(out, s, runs, d_hidden.shifted(s.shard), w.w3, true, to, Into::Add);
  }
}

// From the gradients of the results, as they are worked on, to those of the activation.
template <class Scalar>
Scalar* record_activation_gradient(Recorder& out, const LayerShape& s, const BackwardChunk<Scalar>& b,
                                   const Scalar* d_y) {
  Scalar* const d_activation = out.scratch<Scalar>(rows_of(s, b.rows) * s.weight_shards * s.shard);
  const std::vector<RunBatch> runs = runs_of(s, b.rows, BatchOf::Rows);
  for (std::int64_t shard = 0; shard < s.weight_shards; ++shard)
    rows_by_weights(out, s, runs, RowBuffer<const Scalar>{d_y, s.hidden, 0, s.hidden},
                    ShardWeights<const Scalar>(s, b.weights, shard).w2, true,
                    shard_columns(d_activation, s, shard, s.shard), Into::Overwrite);
  return d_activation;
}

template <class Scalar>
void record_backward(Recorder& out, const LayerShape& s, const std::vector<ForwardChunk<Scalar>>& kept,
                     const BackwardChunk<Scalar>& b, Half half) {
  const bool same_rows = kept.size() == 1 && same(kept.front().rows, b.rows);
  Scalar* const memory = memory_by_expert<Scalar>(out, s, b.rows);  // of d_partial, then of d_input
  if (memory != nullptr) record_bring(out, s, b.rows, b.rows, b.d_partial, memory);
  const Scalar* const d_y = memory == nullptr ? b.d_partial : memory;
  const Scalar* const x = half == Half::Inputs ? nullptr : record_input(out, s, kept, b.rows, same_rows);
  if (half == Half::Weights)
    return record_gradients(out, s, b, x, record_activation_again(out, s, kept, b.rows, same_rows), d_y);
  Scalar* const d_activation = record_activation_gradient(out, s, b, d_y);
  const Scalar* const there = kept_activation(s, kept, same_rows);
  record_activation_backward(out, s, kept, b, d_activation, same_rows, half == Half::Both && there == nullptr);
  if (half == Half::Both)
    record_gradients(out, s, b, x, there != nullptr ? there : static_cast<const Scalar*>(d_activation), d_y);
  record_input_gradient(out, s, b, memory == nullptr ? b.d_input : memory);
  if (memory != nullptr) record_return<Scalar>(out, s, b.rows, memory, b.d_input);
  clear_unused(out, s, b.rows, b.d_input);
}

}  // namespace

template <class Scalar>
void record_restore_hidden(DeviceOp<Scalar>& op) {
  const LayerShape s = expert_shape(op);
  const Scalar* x = op.read(roles::expert_input);
  if (Scalar* const memory = memory_by_expert<Scalar>(op.out, s, op.op.rows)) {
    record_bring(op.out, s, op.op.rows, op.op.rows, x, memory);
    x = memory;
  }
  record_hidden(op.out, s, op.op.rows, x, op.read(roles::expert_weights), op.write(TensorKind::Hidden));
}

namespace {

template <class Scalar>
std::vector<ForwardChunk<Scalar>> kept_chunks(DeviceOp<Scalar>& op) {
  const std::vector<TensorId> inputs = op.all_reads(roles::expert_input), hidden = op.all_reads(TensorKind::Hidden),
                              activated = op.all_reads(TensorKind::Activated), scores = op.all_reads(roles::row_scores);
  const auto fits = [&](const std::vector<TensorId>& ids) { return ids.empty() || ids.size() == hidden.size(); };
  check(fits(inputs) && fits(activated) && fits(scores), "hidden rows for each input of an expert");
  std::vector<ForwardChunk<Scalar>> kept;
  for (std::size_t i = 0; i < hidden.size(); ++i) {
    const auto data = [&](const std::vector<TensorId>& ids) { return ids.empty() ? nullptr : op.data(ids[i]); };
    if (const RowRange rows = op.tensor(hidden[i]).rows; rows.overlaps(op.op.rows))
      kept.push_back({rows, data(inputs), op.data(hidden[i]), data(activated),
                      scores.empty() ? nullptr : op.template data<Wide<Scalar>>(scores[i])});
  }
  return kept;
}

// The half of the weights finds what that of the inputs has left.
template <class Scalar>
Scalar* left_between(DeviceOp<Scalar>& op, Role role) {
  return op.op.half == Half::Weights ? op.data(op.read_id(role)) : op.write(role);
}

}  // namespace

// The backward op reads the gradient only if that has a value already.
template <class Scalar>
void record_expert(DeviceOp<Scalar>& op) {
  const LayerShape s = expert_shape(op);
  const Half half = op.op.half;
  const Scalar* const weights = op.data(op.find_read(roles::expert_weights));
  if (op.op.phase == Phase::Forward)
    return record_forward<Scalar>(op.out, s, op.op.rows, op.read(roles::expert_input), weights,
                                  op.template data<Wide<Scalar>>(op.find_read(roles::row_scores)),
                                  op.write(TensorKind::Hidden), op.write(roles::expert_output),
                                  op.data(op.find_write(TensorKind::Activated)));
  Scalar* const gradient = half == Half::Inputs ? nullptr : op.write(roles::expert_gradient);
  if (gradient != nullptr && !op.find_read(roles::expert_gradient).exists())
    op.out.zero(gradient, op.write_tensor(roles::expert_gradient).elements);
  record_backward<Scalar>(
      op.out, s, kept_chunks(op),
      {op.op.rows, op.read(roles::d_expert_output), weights, gradient,
       op.data(op.find_write(gradient_of(roles::expert_input))), left_between(op, gradient_of(TensorKind::Hidden)),
       op.template data<Wide<Scalar>>(op.find_write(gradient_of(roles::row_scores)))},
      half);
}

template <class Scalar>
void record_dense_ffn(DeviceOp<Scalar>& op) {
  const LayerShape s = ffn_shape(op.shape, parameters_before_projection(op));
  const Half half = op.op.half;
  const RowRange tokens{0, s.sequence_tokens()};
  const Scalar* const input = op.data(op.find_read(roles::ffn_input));
  const Scalar* const weights =
      half == Half::Weights ? nullptr : op.read(TensorKind::DenseWeights) + s.dense_parameters();
  if (op.op.phase == Phase::Forward)
    return record_forward<Scalar>(op.out, s, tokens, input, weights, nullptr, op.write(TensorKind::FfnHidden),
                                  op.write(TensorKind::FfnPartial), op.data(op.find_write(TensorKind::FfnActivated)));
  Scalar* const d_hidden = half == Half::Both ? op.out.template scratch<Scalar>(tokens.size() * s.hidden_width())
                                              : left_between(op, gradient_of(TensorKind::FfnHidden));
  record_backward<Scalar>(
      op.out, s, {{tokens, input, op.read(TensorKind::FfnHidden), op.data(op.find_read(TensorKind::FfnActivated))}},
      {tokens, op.read(roles::d_ffn_partial), weights,
       half == Half::Inputs ? nullptr : op.write(TensorKind::DenseGradients) + op.op.gradients.first,
       op.data(op.find_write(gradient_of(TensorKind::FfnInput))), d_hidden},
      half);
}

DOVETAIL_FOR_DEVICE(record_expert);
DOVETAIL_FOR_DEVICE(record_restore_hidden);
DOVETAIL_FOR_DEVICE(record_dense_ffn);

}  // namespace dovetail::exec

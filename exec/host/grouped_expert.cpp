// SPDX-License-Identifier: Apache-2.0
// Each expert on its own rows of a chunk (a grouped product): they are brought together from all blocks, computed, and
// put back.
#include <algorithm>
#include <utility>

#include "exec/host/expert_pieces.hpp"
#include "exec/step/row_runs.hpp"

namespace dovetail::exec {
namespace {

// Rows of one expert that are taken, in a forward chunk (a) and the chunk at hand (b).
template <class Scalar>
struct OwnRun {
  const KeptChunk<Scalar>* forward = nullptr;  // null: it is the chunk at hand
  RowRun run;
};

std::vector<RowRun> own_runs(const LayerShape& shape, const OwnRows& own, std::int64_t position, RowRange a,
                             RowRange b) {
  const RowRange shared{std::max(a.first, b.first), std::min(a.last, b.last)};
  std::vector<RowRun> runs;
  if (shared.size() <= 0) return runs;
  for (std::int64_t copy = 0; copy < shape.row_copies; ++copy) {
    const std::int64_t block = copy * shape.positions() + position,
                       taken = own.counts.at(static_cast<std::size_t>(block)),
                       count = std::clamp<std::int64_t>(taken - shared.first, 0, shared.size());
    if (count > 0)
      runs.push_back({block * a.size() + shared.first - a.first, block * b.size() + shared.first - b.first, count});
  }
  return runs;
}

// Rows of one expert, packed: `rows` of them, and rows of 0 up to whole tiles.
template <class Scalar>
class Pack {
 public:
  Pack(std::vector<OwnRun<Scalar>> runs, std::int64_t tile) : runs_(std::move(runs)) {
    for (const OwnRun<Scalar>& own : runs_) rows_ += own.run.count;
    rows_ = (rows_ + tile - 1) / tile * tile;
  }
  bool empty() const { return rows_ == 0; }
  std::int64_t rows() const { return rows_; }

  Matrix<Scalar> room(std::vector<Scalar>& memory, std::int64_t width) const {
    memory.assign(static_cast<std::size_t>(rows_ * width), Scalar(0));
    return {memory.data(), rows_, width};
  }
  // first(run): its first row in the tensor.
  template <class First>
  Matrix<Scalar> gather(std::vector<Scalar>& memory, std::int64_t width, First first) const {
    const Matrix<Scalar> packed = room(memory, width);
    Scalar* to = packed.data;
    for (const OwnRun<Scalar>& own : runs_) to = std::copy_n(first(own), own.run.count * width, to);
    return packed;
  }
  template <class First>
  void scatter(Matrix<const Scalar> packed, First first) const {
    const Scalar* from = packed.data;
    for (const OwnRun<Scalar>& own : runs_) {
      std::copy_n(from, own.run.count * packed.cols, first(own));
      from += own.run.count * packed.cols;
    }
  }

 private:
  std::vector<OwnRun<Scalar>> runs_;
  std::int64_t rows_ = 0;
};

template <class Scalar>
Pack<Scalar> pack_of(const LayerShape& shape, const OwnRows& own, std::int64_t position, RowRange rows) {
  std::vector<OwnRun<Scalar>> runs;
  for (const RowRun& run : own_runs(shape, own, position, rows, rows)) runs.push_back({nullptr, run});
  return {std::move(runs), own.tile};
}

template <class Scalar>
struct PackMemory {
  std::vector<Scalar> x, hidden, y, activated, scores, d_x, d_hidden, d_scores, activation;
};

std::int64_t rows_of(const LayerShape& shape, RowRange rows) {
  return shape.row_copies * shape.positions() * rows.size();
}

}  // namespace

template <class Scalar>
void grouped_hidden(const LayerShape& shape, const OwnRows& own, Chunk<const Scalar> input, const Scalar* weights,
                    Scalar* hidden) {
  const std::int64_t m = shape.hidden, width = shape.hidden_row();
  PackMemory<Scalar> memory;
  for (std::int64_t position = 0; position < shape.positions(); ++position) {
    const Pack<Scalar> pack = pack_of<Scalar>(shape, own, position, input.rows);
    const std::int64_t expert = shape.expert_at(position);
    if (pack.empty()) continue;
    const Matrix<Scalar> x =
        pack.gather(memory.x, m, [&](const auto& run) { return input.data + run.run.first_in_a * m; });
    const Matrix<Scalar> h = pack.room(memory.hidden, width);
    for (std::int64_t shard = 0; shard < shape.weight_shards; ++shard)
      hidden_rows<Scalar>(shape, {shape, weights, shard, expert}, x, of_shard(shape, h, shard));
    pack.scatter(h, [&](const auto& run) { return hidden + run.run.first_in_a * width; });
  }
}

template <class Scalar>
void grouped_forward(const LayerShape& shape, const OwnRows& own, Chunk<const Scalar> input, const Scalar* weights,
                     Scalar* hidden, Scalar* partial, Scalar* activated, const Scalar* scores) {
  const std::int64_t m = shape.hidden, width = shape.hidden_row(), wide = shape.weight_shards * shape.shard;
  std::fill_n(partial, rows_of(shape, input.rows) * m, Scalar(0));
  PackMemory<Scalar> memory;
  for (std::int64_t position = 0; position < shape.positions(); ++position) {
    const Pack<Scalar> pack = pack_of<Scalar>(shape, own, position, input.rows);
    const std::int64_t expert = shape.expert_at(position);
    if (pack.empty()) continue;
    const auto at = [](auto* tensor, std::int64_t columns) {
      return [=](const auto& run) { return tensor + run.run.first_in_a * columns; };
    };
    const Matrix<Scalar> x = pack.gather(memory.x, m, at(input.data, m)), h = pack.room(memory.hidden, width),
                         y = pack.room(memory.y, m);
    const Matrix<Scalar> kept = activated == nullptr ? Matrix<Scalar>() : pack.room(memory.activated, wide);
    const Scalar* const own_scores = scores == nullptr ? nullptr : pack.gather(memory.scores, 1, at(scores, 1)).data;
    for (std::int64_t shard = 0; shard < shape.weight_shards; ++shard) {
      const ExpertWeights<const Scalar> w(shape, weights, shard, expert);
      const Matrix<Scalar> columns = of_shard(shape, h, shard);
      hidden_rows(shape, w, Matrix<const Scalar>(x), columns);
      multiply(activation<Scalar>(shape, columns, own_scores, activated_of(shape, kept.data, 0, pack.rows(), shard),
                                  memory.activation),
               w.w2, y, shard == 0 ? Into::Overwrite : Into::Add);
    }
    pack.scatter(h, at(hidden, width));
    pack.scatter(y, at(partial, m));
    if (activated != nullptr) pack.scatter(kept, at(activated, wide));
  }
}

template <class Scalar>
void grouped_backward(const LayerShape& shape, const OwnRows& own, Chunk<const Scalar> d_partial, const Scalar* weights,
                      std::span<const KeptChunk<Scalar>> kept, const ExpertGradients<Scalar>& gradients, Half half) {
  const std::int64_t m = shape.hidden, width = shape.hidden_row(), wide = shape.weight_shards * shape.shard;
  const bool inputs = half != Half::Weights, of_weights = half != Half::Inputs;
  if (inputs) std::fill_n(gradients.input, rows_of(shape, d_partial.rows) * m, Scalar(0));
  if (gradients.scores != nullptr) std::fill_n(gradients.scores, rows_of(shape, d_partial.rows), Scalar(0));
  PackMemory<Scalar> memory;
  Scratch<Scalar> scratch;
  for (std::int64_t position = 0; position < shape.positions(); ++position) {
    std::vector<OwnRun<Scalar>> runs;
    for (const KeptChunk<Scalar>& forward : kept)
      for (const RowRun& run : own_runs(shape, own, position, forward.input.rows, d_partial.rows))
        runs.push_back({&forward, run});
    const std::int64_t expert = shape.expert_at(position);
    const Pack<Scalar> pack(std::move(runs), own.tile);
    if (pack.empty()) continue;
    const auto kept_at = [](auto of_chunk, std::int64_t columns) {
      return [=](const OwnRun<Scalar>& run) { return of_chunk(*run.forward) + run.run.first_in_a * columns; };
    };
    const auto at = [](auto* tensor, std::int64_t columns) {
      return [=](const OwnRun<Scalar>& run) { return tensor + run.run.first_in_b * columns; };
    };
    using Kept = const KeptChunk<Scalar>&;
    const bool has_activated = kept.front().activated != nullptr, has_scores = kept.front().scores != nullptr;
    const Matrix<Scalar> x = of_weights ? pack.gather(memory.x, m, kept_at([](Kept k) { return k.input.data; }, m))
                                        : Matrix<Scalar>(),
                         h = pack.gather(memory.hidden, width, kept_at([](Kept k) { return k.hidden; }, width)),
                         d_y = pack.gather(memory.y, m, at(d_partial.data, m)), d_x = pack.room(memory.d_x, m),
                         d_h = inputs ? pack.room(memory.d_hidden, width)
                                      : pack.gather(memory.d_hidden, width, at(gradients.hidden, width)),
                         d_scores = pack.room(memory.d_scores, 1);
    const Matrix<Scalar> activated =
        has_activated ? pack.gather(memory.activated, wide, kept_at([](Kept k) { return k.activated; }, wide))
                      : Matrix<Scalar>();
    const Scalar* const scores =
        has_scores ? pack.gather(memory.scores, 1, kept_at([](Kept k) { return k.scores; }, 1)).data : nullptr;
    for (std::int64_t shard = 0; shard < shape.weight_shards; ++shard) {
      const KeptRun<Scalar> of_run{x, of_shard<const Scalar>(shape, h, shard),
                                   activated_of<const Scalar>(shape, activated.data, 0, pack.rows(), shard), scores};
      if (inputs)
        run_backward_inputs<Scalar>(shape, {shape, weights, shard, expert}, of_run, d_y, d_x,
                                    shard == 0 ? Into::Overwrite : Into::Add, of_shard(shape, d_h, shard),
                                    gradients.scores == nullptr ? nullptr : d_scores.data, scratch);
      if (of_weights)
        run_backward_weights<Scalar>(shape, {shape, gradients.weights, shard, expert}, of_run, d_y,
                                     of_shard(shape, d_h, shard), scratch);
    }
    if (!inputs) continue;
    pack.scatter(d_x, at(gradients.input, m));
    pack.scatter(d_h, at(gradients.hidden, width));
    if (gradients.scores != nullptr) pack.scatter(d_scores, at(gradients.scores, 1));
  }
}

template void grouped_forward<float>(const LayerShape&, const OwnRows&, Chunk<const float>, const float*, float*,
                                     float*, float*, const float*);
template void grouped_forward<double>(const LayerShape&, const OwnRows&, Chunk<const double>, const double*, double*,
                                      double*, double*, const double*);
template void grouped_hidden<float>(const LayerShape&, const OwnRows&, Chunk<const float>, const float*, float*);
template void grouped_hidden<double>(const LayerShape&, const OwnRows&, Chunk<const double>, const double*, double*);
template void grouped_backward<float>(const LayerShape&, const OwnRows&, Chunk<const float>, const float*,
                                      std::span<const KeptChunk<float>>, const ExpertGradients<float>&, Half);
template void grouped_backward<double>(const LayerShape&, const OwnRows&, Chunk<const double>, const double*,
                                       std::span<const KeptChunk<double>>, const ExpertGradients<double>&, Half);

}  // namespace dovetail::exec

// SPDX-License-Identifier: Apache-2.0
// Expert feed-forward networks on runs of rows. A chunk holds each expert's rows as row_copies blocks, positions()
// blocks apart. Shards of an expert are worked on one after the other: their hidden rows stand side by side, their
// results add up.
#include <algorithm>

#include "exec/host/expert_pieces.hpp"
#include "exec/step/row_runs.hpp"

namespace dovetail::exec {
namespace {

// Operands that a half does not have are nowhere.
template <class Item>
Item* from(Item* data, std::int64_t first) {
  return data == nullptr ? nullptr : data + first;
}

}  // namespace

template <class Scalar>
void expert_hidden(const LayerShape& shape, Chunk<const Scalar> input, const Scalar* weights, Scalar* hidden) {
  const std::int64_t m = shape.hidden, width = shape.hidden_row();
  for (std::int64_t position = 0; position < shape.positions(); ++position)
    if (const std::int64_t expert = shape.expert_at(position); expert >= 0)
      for (const RowRun& run : expert_runs(shape, position, input.rows, input.rows))
        for (std::int64_t shard = 0; shard < shape.weight_shards; ++shard)
          hidden_rows<Scalar>(
              shape, {shape, weights, shard, expert}, {input.data + run.first_in_a * m, run.count, m},
              of_shard(shape, Matrix<Scalar>(hidden + run.first_in_a * width, run.count, width), shard));
}

template <class Scalar>
void expert_forward(const LayerShape& shape, Chunk<const Scalar> input, const Scalar* weights, Scalar* hidden,
                    Scalar* partial, Scalar* activated, const Scalar* scores) {
  const std::int64_t m = shape.hidden, width = shape.hidden_row();
  std::vector<Scalar> memory;
  for (std::int64_t position = 0; position < shape.positions(); ++position) {
    const std::int64_t expert = shape.expert_at(position);
    for (const RowRun& run : expert_runs(shape, position, input.rows, input.rows)) {
      const Matrix<const Scalar> x(input.data + run.first_in_a * m, run.count, m);
      const Matrix<Scalar> h(hidden + run.first_in_a * width, run.count, width);
      const Matrix<Scalar> y(partial + run.first_in_a * m, run.count, m);
      const Scalar* const own_scores = scores == nullptr ? nullptr : scores + run.first_in_a;
      if (expert < 0) std::fill_n(y.data, run.count * m, Scalar(0));
      for (std::int64_t shard = 0; expert >= 0 && shard < shape.weight_shards; ++shard) {
        const ExpertWeights<const Scalar> w(shape, weights, shard, expert);
        const Matrix<Scalar> columns = of_shard(shape, h, shard);
        hidden_rows(shape, w, x, columns);
        const Matrix<Scalar> kept = activated_of(shape, activated, run.first_in_a, run.count, shard);
        multiply(activation<Scalar>(shape, columns, own_scores, kept, memory), w.w2, y,
                 shard == 0 ? Into::Overwrite : Into::Add);
      }
    }
  }
}

template <class Scalar>
void expert_backward(const LayerShape& shape, Chunk<const Scalar> d_partial, const Scalar* weights,
                     std::span<const KeptChunk<Scalar>> kept, const ExpertGradients<Scalar>& gradients, Half half) {
  const std::int64_t m = shape.hidden, width = shape.hidden_row();
  const bool inputs = half != Half::Weights;
  Scratch<Scalar> scratch;
  for (std::int64_t position = 0; position < shape.positions(); ++position) {
    const std::int64_t expert = shape.expert_at(position);
    for (const KeptChunk<Scalar>& forward : kept)
      for (const RowRun& run : expert_runs(shape, position, forward.input.rows, d_partial.rows)) {
        const Matrix<const Scalar> x(from(forward.input.data, run.first_in_a * m), run.count, m);
        const Matrix<const Scalar> h(forward.hidden + run.first_in_a * width, run.count, width);
        const Matrix<const Scalar> d_y(d_partial.data + run.first_in_b * m, run.count, m);
        const Matrix<Scalar> d_x(from(gradients.input, run.first_in_b * m), run.count, m);
        const Matrix<Scalar> d_h(gradients.hidden + run.first_in_b * width, run.count, width);
        Scalar* const d_scores = from(gradients.scores, run.first_in_b);
        if (inputs && expert < 0) std::fill_n(d_x.data, run.count * m, Scalar(0));
        if (d_scores != nullptr) std::fill_n(d_scores, run.count, Scalar(0));
        for (std::int64_t shard = 0; expert >= 0 && shard < shape.weight_shards; ++shard) {
          const KeptRun<Scalar> of_run{x, of_shard(shape, h, shard),
                                       activated_of(shape, forward.activated, run.first_in_a, run.count, shard),
                                       from(forward.scores, run.first_in_a)};
          const Matrix<Scalar> d_columns = of_shard(shape, d_h, shard);
          if (inputs)
            run_backward_inputs<Scalar>(shape, {shape, weights, shard, expert}, of_run, d_y, d_x,
                                        shard == 0 ? Into::Overwrite : Into::Add, d_columns, d_scores, scratch);
          if (half != Half::Inputs)
            run_backward_weights<Scalar>(shape, {shape, gradients.weights, shard, expert}, of_run, d_y, d_columns,
                                         scratch);
        }
      }
  }
}

template void expert_forward<float>(const LayerShape&, Chunk<const float>, const float*, float*, float*, float*,
                                    const float*);
template void expert_forward<double>(const LayerShape&, Chunk<const double>, const double*, double*, double*, double*,
                                     const double*);
template void expert_hidden<float>(const LayerShape&, Chunk<const float>, const float*, float*);
template void expert_hidden<double>(const LayerShape&, Chunk<const double>, const double*, double*);
template void expert_backward<float>(const LayerShape&, Chunk<const float>, const float*,
                                     std::span<const KeptChunk<float>>, const ExpertGradients<float>&, Half);
template void expert_backward<double>(const LayerShape&, Chunk<const double>, const double*,
                                      std::span<const KeptChunk<double>>, const ExpertGradients<double>&, Half);

}  // namespace dovetail::exec

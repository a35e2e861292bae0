// SPDX-License-Identifier: Apache-2.0
#include "exec/host/custom_expert.hpp"

#include <algorithm>

#include "exec/step/row_runs.hpp"

namespace dovetail::exec {
namespace {

// `count` rows of `width` numbers each, from row `first` on.
template <class Scalar>
std::vector<double> in_double(const Scalar* rows, std::int64_t first, std::int64_t count, std::int64_t width) {
  return {rows + first * width, rows + (first + count) * width};
}
template <class Scalar>
void write_rows(const std::vector<double>& from, Scalar* rows, std::int64_t first, std::int64_t width) {
  std::ranges::transform(from, rows + first * width, [](double value) { return static_cast<Scalar>(value); });
}
template <class Scalar>
void add_row(const std::vector<double>& from, Scalar* to) {
  for (std::size_t i = 0; i < from.size(); ++i) to[i] += static_cast<Scalar>(from[i]);
}

std::vector<double> zero_rows(std::int64_t count, std::int64_t width) {
  return std::vector<double>(static_cast<std::size_t>(count * width));
}

}  // namespace

template <class Scalar>
void custom_expert_forward(const LayerShape& s, Chunk<const Scalar> input, const Scalar* weights, Scalar* kept,
                           Scalar* results) {
  for (std::int64_t position = 0; position < s.positions(); ++position) {
    const std::int64_t expert = s.expert_at(position);
    for (const RowRun& run : expert_runs(s, position, input.rows, input.rows)) {
      std::vector<double> y = zero_rows(run.count, s.hidden), hidden = zero_rows(run.count, s.custom_kept);
      if (expert >= 0)
        s.extensions.expert->forward(s.expert_sizes, in_double(input.data, run.first_in_a, run.count, s.hidden),
                                     in_double(weights, expert, 1, s.custom_parameters), y, hidden);
      write_rows(hidden, kept, run.first_in_a, s.custom_kept);
      if (results != nullptr) write_rows(y, results, run.first_in_a, s.hidden);
    }
  }
}

template <class Scalar>
void custom_expert_backward(const LayerShape& s, Chunk<const Scalar> d_results, const Scalar* weights,
                            std::span<const KeptChunk<Scalar>> kept, const ExpertGradients<Scalar>& gradients) {
  for (std::int64_t position = 0; position < s.positions(); ++position) {
    const std::int64_t expert = s.expert_at(position);
    for (const KeptChunk<Scalar>& forward : kept)
      for (const RowRun& run : expert_runs(s, position, forward.input.rows, d_results.rows)) {
        std::vector<double> d_x = zero_rows(run.count, s.hidden);
        if (expert >= 0) {
          std::vector<double> d_parameters = zero_rows(1, s.custom_parameters);
          s.extensions.expert->backward(
              s.expert_sizes, in_double(forward.input.data, run.first_in_a, run.count, s.hidden),
              in_double(weights, expert, 1, s.custom_parameters),
              in_double(forward.hidden, run.first_in_a, run.count, s.custom_kept),
              in_double(d_results.data, run.first_in_b, run.count, s.hidden), d_x, d_parameters);
          add_row(d_parameters, gradients.weights + expert * s.custom_parameters);
        }
        write_rows(d_x, gradients.input, run.first_in_b, s.hidden);
      }
  }
}

template void custom_expert_forward(const LayerShape&, Chunk<const float>, const float*, float*, float*);
template void custom_expert_forward(const LayerShape&, Chunk<const double>, const double*, double*, double*);
template void custom_expert_backward(const LayerShape&, Chunk<const float>, const float*,
                                     std::span<const KeptChunk<float>>, const ExpertGradients<float>&);
template void custom_expert_backward(const LayerShape&, Chunk<const double>, const double*,
                                     std::span<const KeptChunk<double>>, const ExpertGradients<double>&);

}  // namespace dovetail::exec

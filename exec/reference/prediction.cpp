// SPDX-License-Identifier: Apache-2.0
#include "exec/reference/prediction.hpp"

#include <utility>

#include "exec/reference/naive.hpp"

namespace dovetail::exec {

using namespace naive;

PredictionInput::PredictionInput(const LayerWeights& layer, const EndWeights& ends, Values words, Values before)
    : layer_(layer),
      ends_(ends),
      words_(std::move(words)),
      before_(std::move(before)),
      embedded_(look_up(ends, words_, hidden())) {}

Values PredictionInput::forward() const {
  const Size m = hidden();
  const std::array halves{norm(prediction_norm(m, layer_.norm, 0), embedded_),
                          norm(prediction_norm(m, layer_.norm, 1), before_)};
  Values input(before_.size());
  for (Size half = 0; half < halves.size(); ++half)
    for (Size row = 0; row < input.size(); row += m)
      add_product(&halves[half][row], &layer_.projection[half * m * m], m, m, &input[row]);
  return input;
}

Values PredictionInput::backward(const Values& d_input, LayerWeights& d_layer, EndWeights& d_ends) const {
  const Size m = hidden();
  const auto through = [&](Size half, const Values& x) {
    const Values normed = norm(prediction_norm(m, layer_.norm, half), x);
    Values d_normed(x.size());
    for (Size row = 0; row < x.size(); row += m)
      add_gradients(&normed[row], &layer_.projection[half * m * m], &d_input[row], m, m, &d_normed[row],
                    &d_layer.projection[half * m * m]);
    return norm_backward(prediction_norm(m, layer_.norm, half), x, d_normed, prediction_norm(m, d_layer.norm, half));
  };
  look_up_backward(words_, through(0, embedded_), m, d_ends);
  return through(1, before_);
}

}  // namespace dovetail::exec

// SPDX-License-Identifier: Apache-2.0
// A layer of multi-token prediction before and after what it has in common with any layer: its input of the output
// before and the next words, and the norm of its own output.
#pragma once
#include "exec/reference/ends.hpp"

namespace dovetail::exec {

// The projection of two norms side by side, that of the next words' embeddings and that of the output before it, which
// is normed already. Rows (M) by position.
class PredictionInput {
 public:
  // `words`: so many positions further on as the layer is deep.
  PredictionInput(const LayerWeights& layer, const EndWeights& ends, Values words, Values before);
  Values forward() const;
  // From the gradient of forward()'s result to that of `before`; adds those of the weights.
  Values backward(const Values& d_input, LayerWeights& d_layer, EndWeights& d_ends) const;

 private:
  std::size_t hidden() const { return ends_.norm.size(); }

  const LayerWeights& layer_;
  const EndWeights& ends_;
  Values words_, before_, embedded_;
};

// The weights of its norm number `which`: of the embeddings, of the output before, of its own output; the last 3 M of
// all norms of the layer.
template <class Norms>
auto prediction_norm(std::size_t hidden, Norms& norms, std::size_t which) {
  return std::span(norms).subspan(norms.size() - (3 - which) * hidden, hidden);
}
inline constexpr std::size_t own_norm = 2;

}  // namespace dovetail::exec

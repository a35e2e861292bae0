// SPDX-License-Identifier: Apache-2.0
// Turns queries and keys by the positions of their tokens (exec/step/rotary_rule.hpp), or their gradients back.
#pragma once
#include <cmath>
#include <vector>

#include "exec/step/layer_shape.hpp"
#include "exec/step/matrix.hpp"
#include "exec/step/rotary_rule.hpp"

namespace dovetail::exec {

// The cosines and sines of one position, by pair.
template <class Scalar>
class PositionTurn {
 public:
  explicit PositionTurn(std::int64_t head_size)
      : speeds_(rotary_speeds(head_size)), cosines_(speeds_.size()), sines_(speeds_.size()) {}

  void set(std::int64_t position, Turn turn) {
    const double way = turn == Turn::On ? 1 : -1;
    for (std::size_t i = 0; i < speeds_.size(); ++i) {
      const double angle = static_cast<double>(position) * speeds_[i];
      cosines_[i] = static_cast<Scalar>(std::cos(angle));
      sines_[i] = static_cast<Scalar>(way * std::sin(angle));
    }
  }
  // One head. `to` may be `from`.
  void turn(const Scalar* from, Scalar* to) const {
    const std::size_t half = speeds_.size();
    for (std::size_t i = 0; i < half; ++i) {
      const Scalar low = from[i], high = from[half + i];
      to[i] = low * cosines_[i] - high * sines_[i];
      to[half + i] = high * cosines_[i] + low * sines_[i];
    }
  }

 private:
  std::vector<double> speeds_;
  std::vector<Scalar> cosines_, sines_;
};

// The columns of queries and keys (L, Q + K), by sample and position. `to` may be `from`.
template <class Scalar>
void turn_queries_keys(const LayerShape& shape, Turn turn, Matrix<const Scalar> from, Matrix<Scalar> to) {
  PositionTurn<Scalar> at(shape.head_size);
  for (std::int64_t position = 0; position < shape.sequence; ++position) {
    at.set(position, turn);
    for (std::int64_t token = position; token < shape.sequence_tokens(); token += shape.sequence)
      for (std::int64_t first = 0; first < shape.query_width() + shape.key_width(); first += shape.head_size)
        at.turn(from.row(token) + first, to.row(token) + first);
  }
}

}  // namespace dovetail::exec

// SPDX-License-Identifier: Apache-2.0
// Bodies of kernels that know nothing of layers: sums, rows in another order, Adam.
#pragma once
#include <cmath>

#include "exec/device/launch.hpp"
#include "exec/step/adam_rule.hpp"
#include "exec/step/clip_rule.hpp"

namespace dovetail::exec {

// sum = a + b, all of `size` elements for each index; sum may be a or b.
template <class Scalar, int size>
struct Add {
  const Scalar *a, *b;
  Scalar* sum;
  DOVETAIL_BOTH void operator()(std::int64_t i) const {
    const Pack<size, Scalar> left = load<size>(a + i * size), right = load<size>(b + i * size);
    Pack<size, Scalar> result;
    for (int j = 0; j < size; ++j) result.at[j] = narrow<Scalar>(wide(left.at[j]) + wide(right.at[j]));
    store<size>(sum + i * size, result);
  }
};

// sum[i] = the sum of the sources' i-th elements, in their order; `size` at once. `sum` may be one of them.
template <class Scalar, int size>
struct SumOf {
  const Scalar* const* sources;
  std::int64_t count;  // of sources
  std::int64_t first;  // their first element
  Scalar* sum;
  DOVETAIL_BOTH void operator()(std::int64_t i) const {
    Wide<Scalar> total[size] = {};
    for (std::int64_t source = 0; source < count; ++source) {
      const Pack<size, Scalar> values = load<size>(sources[source] + first + i * size);
      for (int j = 0; j < size; ++j) total[j] += wide(values.at[j]);
    }
    Pack<size, Scalar> result;
    for (int j = 0; j < size; ++j) result.at[j] = narrow<Scalar>(total[j]);
    store(sum + i * size, result);
  }
};

// Row from_rows[i] to row to_rows[i]; null: i. Rows of `cols` elements.
template <class Scalar>
struct MoveRows {
  const Scalar* from;
  Scalar* to;
  std::int64_t cols;
  const std::int64_t *from_rows, *to_rows;
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t i, const Lanes& lanes) const {
    const Scalar* const source = from + (from_rows == nullptr ? i : from_rows[i]) * cols;
    Scalar* const target = to + (to_rows == nullptr ? i : to_rows[i]) * cols;
    for_columns<Scalar>(lanes, cols, [&](std::int64_t c, auto size) {
      store(target + c, load_constant<decltype(size)::value>(source + c));
    });
  }
};

// By segment of gradients: the sum of their squares, times `weight`.
template <class Scalar>
struct SquareParts {
  static constexpr std::int64_t segment = 1 << 16;
  const Scalar* gradients;
  std::int64_t count;
  bool packs;  // they begin at a multiple of 16 bytes, and end at one
  Wide<Scalar> weight;
  Wide<Scalar>* parts;
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t i, const Lanes& lanes) const {
    const std::int64_t first = i * segment, left = count - first;
    Wide<Scalar> sum = 0;
    for_columns<Scalar>(lanes, packs ? segment : 1, left < segment ? left : segment, [&](std::int64_t c, auto size) {
      const auto x = load_constant<decltype(size)::value>(gradients + first + c);
      for (const Scalar value : x.at) sum += wide(value) * wide(value);
    });
    sum = lanes.sum(sum);
    if (lanes.index() == 0) parts[i] = weight * sum;
  }
};
// One row: the sum of all parts.
template <class Number>
struct AddSquares {
  const Number* parts;
  std::int64_t count;
  Number* sum;
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t, const Lanes& lanes) const {
    Number own = 0;
    for (std::int64_t i = lanes.index(); i < count; i += lanes.count()) own += parts[i];
    own = lanes.sum(own);
    if (lanes.index() == 0) *sum = own;
  }
};

// A step of Adam, whose scales are on the device, so that recorded work is that of every step; `master`, of bf16
// weights, holds them in full precision.
template <class Scalar, int size>
struct AdamStep {
  const Scalar* gradient;
  Scalar* weights;
  Wide<Scalar>*mean, *variance, *master;
  const AdamScales<Wide<Scalar>>* scales;
  const Wide<Scalar>* squares = nullptr;  // of all gradients, whose norm is `largest` at most; null: any
  Wide<Scalar> largest = 0;
  DOVETAIL_BOTH void operator()(std::int64_t i) const {
    using Number = Wide<Scalar>;
    constexpr Number beta1 = Number(adam_beta1), beta2 = Number(adam_beta2), epsilon = Number(adam_epsilon);
    const Number mean_scale = scales->mean, variance_scale = scales->variance;
    const std::int64_t first = i * size;
    const Pack<size, Scalar> g = load_constant<size>(gradient + first);
    Pack<size, Number> m = load<size>(mean + first), v = load<size>(variance + first), w = in_full(first);
    Pack<size, Scalar> rounded;
    const Number scale = clipped();
    for (int j = 0; j < size; ++j) {
      const Number d = scale * wide(g.at[j]);
      m.at[j] = beta1 * m.at[j] + adam_new_mean<Number> * d;
      v.at[j] = beta2 * v.at[j] + adam_new_variance<Number> * d * d;
      w.at[j] -= mean_scale * m.at[j] / (std::sqrt(v.at[j] * variance_scale) + epsilon);
      rounded.at[j] = narrow<Scalar>(w.at[j]);
    }
    store(mean + first, m);
    store(variance + first, v);
    if (master != nullptr) store(master + first, w);
    store(weights + first, rounded);
  }

 private:
  DOVETAIL_BOTH Wide<Scalar> clipped() const {
    if (squares == nullptr) return 1;
    const Wide<Scalar> scale = largest / (std::sqrt(*squares) + Wide<Scalar>(clip_epsilon));
    return scale < 1 ? scale : 1;
  }
  DOVETAIL_BOTH Pack<size, Wide<Scalar>> in_full(std::int64_t first) const {
    if (master != nullptr) return load<size>(master + first);
    const Pack<size, Scalar> stored = load<size>(weights + first);
    Pack<size, Wide<Scalar>> result;
    for (int j = 0; j < size; ++j) result.at[j] = wide(stored.at[j]);
    return result;
  }
};

}  // namespace dovetail::exec

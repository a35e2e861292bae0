// Bodies of kernels that know nothing of layers: sums, rows in another order, Adam.
#pragma once
#include <cmath>

#include "exec/device/launch.hpp"

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

// sum[i] = the sum of the sources' i-th elements, in their order. `sum` may be one of them.
template <class Scalar>
struct SumOf {
  const Scalar* const* sources;
  std::int64_t count;  // of sources
  std::int64_t first;  // their first element
  Scalar* sum;
  DOVETAIL_BOTH void operator()(std::int64_t i) const {
    Wide<Scalar> total = 0;
    for (std::int64_t j = 0; j < count; ++j) total += wide(sources[j][first + i]);
    sum[i] = narrow<Scalar>(total);
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
      store<decltype(size)::value>(target + c, load<decltype(size)::value>(source + c));
    });
  }
};

// The first Adam step with the settings of update.cpp; `master`, of bf16 weights, holds them in full precision.
template <class Scalar>
struct AdamStep {
  const Scalar* gradient;
  Scalar* weights;
  Wide<Scalar>*mean, *variance, *master;
  Wide<Scalar> mean_scale, variance_scale;
  DOVETAIL_BOTH void operator()(std::int64_t i) const {
    using Number = Wide<Scalar>;
    constexpr Number beta1 = Number(.9), beta2 = Number(.999), epsilon = Number(1e-8);
    const Number g = wide(gradient[i]);
    mean[i] = beta1 * mean[i] + (1 - beta1) * g;
    variance[i] = beta2 * variance[i] + (1 - beta2) * g * g;
    const Number step = mean_scale * mean[i] / (std::sqrt(variance[i] * variance_scale) + epsilon);
    const Number result = (master == nullptr ? wide(weights[i]) : master[i]) - step;
    if (master != nullptr) master[i] = result;
    weights[i] = narrow<Scalar>(result);
  }
};

}  // namespace dovetail::exec

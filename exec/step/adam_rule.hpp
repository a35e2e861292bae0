// SPDX-License-Identifier: Apache-2.0
// Adam (Kingma and Ba, ICLR 2015, algorithm 1) with its default settings and no weight decay: what kernels and the
// reference share of it.
#pragma once
#include <cmath>

namespace dovetail::exec {

inline constexpr double adam_rate = 1e-3, adam_beta1 = .9, adam_beta2 = .999, adam_epsilon = 1e-8;

// The shares of a new gradient are rounded from double: in float, 1 - .999f is off by 1.3e-5.
template <class Number>
inline constexpr Number adam_new_mean = static_cast<Number>(1 - adam_beta1);
template <class Number>
inline constexpr Number adam_new_variance = static_cast<Number>(1 - adam_beta2);

// Factors of the moments in step t, which counts from 1: weights -= mean m / (sqrt(variance v) + epsilon).
template <class Number>
struct AdamScales {
  Number mean, variance;
  explicit AdamScales(int step)
      : mean(static_cast<Number>(adam_rate / (1 - std::pow(adam_beta1, step)))),
        variance(static_cast<Number>(1 / (1 - std::pow(adam_beta2, step)))) {}
};

}  // namespace dovetail::exec

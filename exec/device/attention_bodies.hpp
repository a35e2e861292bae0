// Bodies of the causal softmax over scores (heads, queries, keys) of one sample, forward and backward. Queries are
// `count` positions from `first` on; all keys up to the last of them are there.
#pragma once
#include <cmath>

#include "exec/device/launch.hpp"

namespace dovetail::exec {

struct CausalRows {
  std::int64_t first, count, heads;
  DOVETAIL_BOTH std::int64_t keys() const { return first + count; }
  DOVETAIL_BOTH std::int64_t visible(std::int64_t row) const { return first + row % count + 1; }
  // In log_sum_exp (positions, heads) from the sample's first on.
  DOVETAIL_BOTH std::int64_t query(std::int64_t row) const { return (first + row % count) * heads + row / count; }
};

// Scores to probabilities; keys after the query get 0. Leaves the logarithm of the sum of exponentials.
template <class Scalar>
struct CausalSoftmax {
  CausalRows rows;
  const Wide<Scalar>* scores;
  Scalar* probabilities;
  Wide<Scalar>* log_sum_exp;
  Wide<Scalar> scale;
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t row, const Lanes& lanes) const {
    using Number = Wide<Scalar>;
    const std::int64_t keys = rows.keys(), visible = rows.visible(row);
    const Number* const s = scores + row * keys;
    Number largest = s[0] * scale;
    for (std::int64_t i = lanes.index(); i < visible; i += lanes.count())
      largest = s[i] * scale > largest ? s[i] * scale : largest;
    largest = lanes.max(largest);
    Number sum = 0;
    for (std::int64_t i = lanes.index(); i < visible; i += lanes.count()) sum += std::exp(s[i] * scale - largest);
    sum = lanes.sum(sum);
    for (std::int64_t i = lanes.index(); i < keys; i += lanes.count())
      probabilities[row * keys + i] = narrow<Scalar>(i < visible ? std::exp(s[i] * scale - largest) / sum : Number(0));
    if (lanes.index() == 0) log_sum_exp[rows.query(row)] = largest + std::log(sum);
  }
};

// Recomputes P from scores; dS = P (dP - sum of P dP) scale.
template <class Scalar>
struct SoftmaxBackward {
  CausalRows rows;
  const Wide<Scalar>*scores, *d_probabilities, *log_sum_exp;
  Scalar *probabilities, *d_scores;
  Wide<Scalar> scale;
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t row, const Lanes& lanes) const {
    using Number = Wide<Scalar>;
    const std::int64_t keys = rows.keys(), visible = rows.visible(row), first = row * keys;
    const Number log_sum = log_sum_exp[rows.query(row)];
    Number dot = 0;
    for (std::int64_t i = lanes.index(); i < visible; i += lanes.count())
      dot += std::exp(scores[first + i] * scale - log_sum) * d_probabilities[first + i];
    dot = lanes.sum(dot);
    for (std::int64_t i = lanes.index(); i < keys; i += lanes.count()) {
      const Number p = i < visible ? std::exp(scores[first + i] * scale - log_sum) : Number(0);
      probabilities[first + i] = narrow<Scalar>(p);
      d_scores[first + i] = narrow<Scalar>(i < visible ? p * (d_probabilities[first + i] - dot) * scale : Number(0));
    }
  }
};

}  // namespace dovetail::exec

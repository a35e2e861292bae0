// SPDX-License-Identifier: Apache-2.0
// Bodies of the causal softmax over scores (samples, heads, queries, keys), forward and backward. Queries of a sample
// are `count` positions from `first` on; all keys up to the last of them are there.
#pragma once
#include <cmath>

#include "exec/device/launch.hpp"

namespace dovetail::exec {

struct CausalRows {
  std::int64_t first, count, heads;
  std::int64_t sequence;  // positions of a sample
  DOVETAIL_BOTH std::int64_t keys() const { return first + count; }
  std::int64_t of_sample() const { return heads * count; }
  DOVETAIL_BOTH std::int64_t visible(std::int64_t row) const { return first + row % count + 1; }
  // In log_sum_exp (samples, positions, heads) from the first sample on.
  DOVETAIL_BOTH std::int64_t query(std::int64_t row) const {
    const std::int64_t of_head = row / count, sample = of_head / heads;
    return (sample * sequence + first + row % count) * heads + of_head % heads;
  }
};

// Scores to probabilities; keys after the query get 0. Leaves the logarithm of the sum of exponentials.
template <class Scalar>
struct CausalSoftmax {
  using Number = Wide<Scalar>;
  CausalRows rows;
  const Number* scores;
  Scalar* probabilities;
  Number* log_sum_exp;
  Number scale;
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t row, const Lanes& lanes) const {
    const std::int64_t keys = rows.keys(), visible = rows.visible(row);
    const Number* const s = scores + row * keys;
    Number largest = Number(-INFINITY), sum = 0;  // of the exponentials, by exp(largest)
    for_columns<Scalar>(lanes, keys, visible, [&](std::int64_t first, auto count) {
      constexpr int size = decltype(count)::value;
      const Pack<size, Number> x = scaled<size>(s, first, visible);
      Number more = largest;
      for (int j = 0; j < size; ++j) more = x.at[j] > more ? x.at[j] : more;
      sum *= std::exp(largest - more);
      for (int j = 0; j < size; ++j) sum += std::exp(x.at[j] - more);
      largest = more;
    });
    const Number of_all = lanes.max(largest);
    sum = lanes.sum(sum * std::exp(largest - of_all));
    const Number share = 1 / sum;
    for_columns<Scalar>(lanes, keys, [&](std::int64_t first, auto count) {
      constexpr int size = decltype(count)::value;
      Pack<size, Scalar> p{};
      if (first < visible) {
        const Pack<size, Number> x = scaled<size>(s, first, visible);
        for (int j = 0; j < size; ++j) p.at[j] = narrow<Scalar>(std::exp(x.at[j] - of_all) * share);
      }
      store(probabilities + row * keys + first, p);
    });
    if (lanes.index() == 0) log_sum_exp[rows.query(row)] = of_all + std::log(sum);
  }

 private:
  template <int size>
  DOVETAIL_BOTH Pack<size, Number> scaled(const Number* s, std::int64_t first, std::int64_t visible) const {
    Pack<size, Number> x = load_constant<size>(s + first);
    for (int j = 0; j < size; ++j) x.at[j] = first + j < visible ? x.at[j] * scale : Number(-INFINITY);
    return x;
  }
};

// Recomputes P from scores; dS = P (dP - sum of P dP) scale.
template <class Scalar>
struct SoftmaxBackward {
  using Number = Wide<Scalar>;
  CausalRows rows;
  const Number *scores, *d_probabilities, *log_sum_exp;
  Scalar *probabilities, *d_scores;
  Number scale;
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t row, const Lanes& lanes) const {
    const std::int64_t keys = rows.keys(), visible = rows.visible(row);
    const Number log_sum = log_sum_exp[rows.query(row)];
    Number dot = 0;
    for_columns<Scalar>(lanes, keys, visible, [&](std::int64_t first, auto count) {
      constexpr int size = decltype(count)::value;
      const Both<size> at = load_both<size>(row * keys + first, visible - first, log_sum);
      for (int j = 0; j < size; ++j) dot += at.p.at[j] * at.d_p.at[j];
    });
    dot = lanes.sum(dot);
    for_columns<Scalar>(lanes, keys, [&](std::int64_t first, auto count) {
      constexpr int size = decltype(count)::value;
      Pack<size, Scalar> p{}, d_s{};
      if (first < visible) {
        const Both<size> at = load_both<size>(row * keys + first, visible - first, log_sum);
        for (int j = 0; j < size; ++j) {
          p.at[j] = narrow<Scalar>(at.p.at[j]);
          d_s.at[j] = narrow<Scalar>(at.p.at[j] * (at.d_p.at[j] - dot) * scale);
        }
      }
      store(probabilities + row * keys + first, p);
      store(d_scores + row * keys + first, d_s);
    });
  }

 private:
  template <int size>
  struct Both {
    Pack<size, Number> p, d_p;  // 0 from `visible` on, where products leave anything
  };
  template <int size>
  DOVETAIL_BOTH Both<size> load_both(std::int64_t at, std::int64_t visible, Number log_sum) const {
    Both<size> both{load_constant<size>(scores + at), load_constant<size>(d_probabilities + at)};
    for (int j = 0; j < size; ++j) {
      both.p.at[j] = j < visible ? std::exp(both.p.at[j] * scale - log_sum) : Number(0);
      if (j >= visible) both.d_p.at[j] = 0;
    }
    return both;
  }
};

}  // namespace dovetail::exec

// SPDX-License-Identifier: Apache-2.0
// Bodies of the experts' activations. Hidden rows: of each of `shards` shards relu(x W1), or x W1 and x W3 side by
// side; activations: of each shard `width` columns.
#pragma once
#include <cmath>
#include <cstdint>

#include "exec/device/launch.hpp"

namespace dovetail::exec {

// On a GPU to 2 units in the last place of a float, without the branches of a division.
DOVETAIL_BOTH inline float reciprocal(float x) {
#ifdef __CUDA_ARCH__
  return __fdividef(1.0F, x);
#else
  return 1 / x;
#endif
}
DOVETAIL_BOTH inline double reciprocal(double x) {
  return 1 / x;
}
template <class Number>
DOVETAIL_BOTH Number sigmoid(Number x) {
  return reciprocal(1 + std::exp(-x));
}

template <class Scalar, int size>
struct Relu {
  Scalar* values;
  DOVETAIL_BOTH void operator()(std::int64_t i) const {
    Pack<size, Scalar> x = load<size>(values + i * size);
    for (int j = 0; j < size; ++j)
      if (!(wide(x.at[j]) > 0)) x.at[j] = narrow<Scalar>(0);
    store<size>(values + i * size, x);
  }
};

// Rows times their scores.
template <class Scalar>
struct ScaleRows {
  const Scalar* from;
  const Wide<Scalar>* scores;
  Scalar* to;
  std::int64_t cols;
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t row, const Lanes& lanes) const {
    const Wide<Scalar> score = scores[row];
    for_columns<Scalar>(lanes, cols, [&](std::int64_t c, auto count) {
      Pack<decltype(count)::value, Scalar> values = load_constant<decltype(count)::value>(from + row * cols + c);
      for (Scalar& x : values.at) x = narrow<Scalar>(score * wide(x));
      store(to + row * cols + c, values);
    });
  }
};

// silu(x W1) (x W3), times the row's score if there are any, by rows.
template <class Scalar>
struct GatedActivation {
  const Scalar* hidden;
  Scalar* activation;
  std::int64_t width, shards;
  const Wide<Scalar>* scores = nullptr;
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t row, const Lanes& lanes) const {
    const Wide<Scalar> score = scores == nullptr ? 1 : scores[row];
    for (std::int64_t shard = 0; shard < shards; ++shard) {
      const Scalar* const h = hidden + (row * shards + shard) * 2 * width;
      Scalar* const to = activation + (row * shards + shard) * width;
      for_columns<Scalar>(lanes, width, [&](std::int64_t c, auto count) {
        constexpr int size = decltype(count)::value;
        const Pack<size, Scalar> h1 = load_constant<size>(h + c), h3 = load_constant<size>(h + width + c);
        Pack<size, Scalar> result;
        for (int j = 0; j < size; ++j) {
          const Wide<Scalar> x = wide(h1.at[j]);
          result.at[j] = narrow<Scalar>(x * sigmoid(x) * wide(h3.at[j]) * score);
        }
        store<size>(to + c, result);
      });
    }
  }
};

// Rows that two chunks a and b share: `shared` of each block, the i-th of all in both.
struct SharedRows {
  std::uint32_t shared, a_first, a_size, b_first, b_size;  // within a block of each
  DOVETAIL_BOTH std::int64_t in_a(std::uint32_t i) const { return at(i / shared, i % shared, a_first, a_size); }
  DOVETAIL_BOTH std::int64_t in_b(std::uint32_t i) const { return at(i / shared, i % shared, b_first, b_size); }
  DOVETAIL_BOTH static std::int64_t at(std::uint32_t block, std::uint32_t row, std::uint32_t first,
                                       std::uint32_t size) {
    return std::int64_t{block} * size + first + row;
  }
};

// The position of a block of (outer, inner) ones among (inner, outer) ones.
struct BlockOrder {
  std::uint32_t inner, outer;
  DOVETAIL_BOTH std::uint32_t source(std::uint32_t block) const { return block % inner * outer + block / inner; }
};

// Shared rows from a, whose blocks are in the other order, to b.
template <class Scalar>
struct MoveBlocks {
  SharedRows rows;
  BlockOrder order;
  const Scalar* from;
  Scalar* to;
  std::int64_t cols;
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t index, const Lanes& lanes) const {
    const auto i = static_cast<std::uint32_t>(index);
    const std::uint32_t block = order.source(i / rows.shared);
    const Scalar* const source = from + SharedRows::at(block, i % rows.shared, rows.a_first, rows.a_size) * cols;
    Scalar* const target = to + rows.in_b(i) * cols;
    for_columns<Scalar>(lanes, cols, [&](std::int64_t c, auto size) {
      store(target + c, load_constant<decltype(size)::value>(source + c));
    });
  }
};

// From the activation's gradient (rows of b) to that of the hidden rows (of b), by hidden rows of a. The activation may
// take its gradient's place: that of a gate is computed, or taken from `activated` (rows of a) unless that is null.
// `scores` (rows of b) have multiplied the activation unless they are null; d_scores are their gradients, in double
// until the end, as gate gradients are differences of these.
template <class Scalar>
struct ActivationBackward {
  using Number = Wide<Scalar>;
  SharedRows rows;
  const Scalar* hidden;
  Scalar *d_activation, *d_hidden;
  std::int64_t width, shards;
  bool gated, leaves_activation;
  const Scalar* activated = nullptr;
  const Number* scores = nullptr;
  Number* d_scores = nullptr;
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t index, const Lanes& lanes) const {
    const auto i = static_cast<std::uint32_t>(index);
    const std::int64_t row = rows.in_b(i), a = rows.in_a(i) * shards, b = row * shards, parts = gated ? 2 : 1;
    const Number score = scores == nullptr ? 1 : scores[row];
    double dot = 0;
    for (std::int64_t shard = 0; shard < shards; ++shard) {
      const Scalar* const h = hidden + (a + shard) * parts * width;
      Scalar *const d = d_activation + (b + shard) * width, *const d_h = d_hidden + (b + shard) * parts * width;
      for_columns<Scalar>(lanes, width, [&](std::int64_t c, auto count) {
        if (gated)
          through_gate<decltype(count)::value>(
              h + c, activated == nullptr ? nullptr : activated + (a + shard) * width + c, score, d + c, d_h + c, dot);
        else
          through_relu<decltype(count)::value>(h + c, score, d + c, d_h + c, dot);
      });
    }
    if (d_scores == nullptr) return;
    dot = lanes.sum(dot);
    if (lanes.index() == 0) d_scores[row] = static_cast<Number>(dot);
  }

 private:
  template <int size>
  DOVETAIL_BOTH void through_relu(const Scalar* h, Number score, Scalar* d, Scalar* d_h, double& dot) const {
    const Pack<size, Scalar> kept = load_constant<size>(h), d_out = load<size>(d);
    Pack<size, Scalar> result, activation;
    for (int j = 0; j < size; ++j) {
      const Number x = wide(kept.at[j]), out = wide(d_out.at[j]);
      if (d_scores != nullptr) dot += static_cast<double>(out) * x;
      result.at[j] = narrow<Scalar>(x > 0 ? out * score : 0);
      activation.at[j] = narrow<Scalar>(x * score);
    }
    store(d_h, result);
    if (leaves_activation) store(d, activation);
  }
  template <int size>
  DOVETAIL_BOTH void through_gate(const Scalar* h, const Scalar* kept, Number score, Scalar* d, Scalar* d_h,
                                  double& dot) const {
    const Pack<size, Scalar> h1 = load_constant<size>(h), h3 = load_constant<size>(h + width), d_out = load<size>(d);
    Pack<size, Scalar> d_h1, d_h3, activation;
    for (int j = 0; j < size; ++j) {
      const Number x = wide(h1.at[j]), y = wide(h3.at[j]), s = sigmoid(x), out = wide(d_out.at[j]) * score;
      if (d_scores != nullptr) dot += static_cast<double>(wide(d_out.at[j])) * (x * s * y);
      d_h1.at[j] = narrow<Scalar>(out * y * s * (1 + x * (1 - s)));
      d_h3.at[j] = narrow<Scalar>(out * x * s);
      activation.at[j] = narrow<Scalar>(x * s * y * score);
    }
    store(d_h, d_h1);
    store(d_h + width, d_h3);
    if (leaves_activation) store(d, kept == nullptr ? activation : load_constant<size>(kept));
  }
};

}  // namespace dovetail::exec

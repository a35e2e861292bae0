// Bodies of the experts' activations. Hidden rows: of each of `shards` shards relu(x W1), or x W1 and x W3 side by
// side; activations: of each shard `width` columns.
#pragma once
#include <cmath>

#include "exec/device/launch.hpp"

namespace dovetail::exec {

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

// silu(x W1) (x W3), by rows.
template <class Scalar>
struct GatedActivation {
  const Scalar* hidden;
  Scalar* activation;
  std::int64_t width, shards;
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t row, const Lanes& lanes) const {
    for (std::int64_t shard = 0; shard < shards; ++shard) {
      const Scalar* const h = hidden + (row * shards + shard) * 2 * width;
      Scalar* const to = activation + (row * shards + shard) * width;
      for_columns<Scalar>(lanes, width, [&](std::int64_t c, auto count) {
        constexpr int size = decltype(count)::value;
        const Pack<size, Scalar> h1 = load<size>(h + c), h3 = load<size>(h + width + c);
        Pack<size, Scalar> result;
        for (int j = 0; j < size; ++j) {
          const Wide<Scalar> x = wide(h1.at[j]);
          result.at[j] = narrow<Scalar>(x / (1 + std::exp(-x)) * wide(h3.at[j]));
        }
        store<size>(to + c, result);
      });
    }
  }
};

// Rows that a kept forward chunk (a) and a backward chunk (b) share: `shared` of each block.
struct SharedRows {
  std::int64_t shared, a_first, a_size, b_first, b_size;  // within a block of each
  DOVETAIL_BOTH std::int64_t in_a(std::int64_t i) const { return i / shared * a_size + a_first + i % shared; }
  DOVETAIL_BOTH std::int64_t in_b(std::int64_t i) const { return i / shared * b_size + b_first + i % shared; }
};

// From the activation's gradient (rows of b) to that of the hidden rows (of b), by hidden rows of a.
template <class Scalar>
struct ActivationBackward {
  SharedRows rows;
  const Scalar *hidden, *d_activation;
  Scalar* d_hidden;
  std::int64_t width, shards;
  bool gated;
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t i, const Lanes& lanes) const {
    using Number = Wide<Scalar>;
    const std::int64_t parts = gated ? 2 : 1;
    for (std::int64_t shard = 0; shard < shards; ++shard) {
      const Scalar* const h = hidden + (rows.in_a(i) * shards + shard) * parts * width;
      const Scalar* const d = d_activation + (rows.in_b(i) * shards + shard) * width;
      Scalar* const d_h = d_hidden + (rows.in_b(i) * shards + shard) * parts * width;
      for (std::int64_t c = lanes.index(); c < width; c += lanes.count()) {
        const Number h1 = wide(h[c]), d_out = wide(d[c]);
        if (!gated) {
          d_h[c] = narrow<Scalar>(h1 > 0 ? d_out : Number(0));
          continue;
        }
        const Number sigmoid = 1 / (1 + std::exp(-h1)), h3 = wide(h[width + c]);
        d_h[c] = narrow<Scalar>(d_out * h3 * sigmoid * (1 + h1 * (1 - sigmoid)));
        d_h[width + c] = narrow<Scalar>(d_out * h1 * sigmoid);
      }
    }
  }
};

}  // namespace dovetail::exec

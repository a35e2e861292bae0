// SPDX-License-Identifier: Apache-2.0
// Bodies for the heads of latent attention, whose queries and keys have a part without and one with position.
#pragma once
#include "exec/device/launch.hpp"

namespace dovetail::exec {

// A part of each head of each row: so many elements from one row to the next, and from one head to the next.
template <class Scalar>
struct HeadParts {
  Scalar* first;
  std::int64_t row, head;
  DOVETAIL_BOTH Scalar* at(std::int64_t token, std::int64_t index) const { return first + token * row + index * head; }
};

// By token and pack of columns: copies these columns of all heads.
template <class Scalar, int size>
struct CopyHeads {
  HeadParts<const Scalar> from;
  HeadParts<Scalar> to;
  std::int64_t heads, cols;
  DOVETAIL_BOTH void operator()(std::int64_t i) const {
    const std::int64_t packs = cols / size, token = i / packs, col = i % packs * size;
    for (std::int64_t head = 0; head < heads; ++head)
      store(to.at(token, head) + col, load_constant<size>(from.at(token, head) + col));
  }
};

// By token and pack of columns: their sum over all heads.
template <class Scalar, int size>
struct SumHeads {
  HeadParts<const Scalar> from;
  Scalar* to;
  std::int64_t to_length, heads, cols;
  DOVETAIL_BOTH void operator()(std::int64_t i) const {
    const std::int64_t packs = cols / size, token = i / packs, col = i % packs * size;
    Wide<Scalar> total[size] = {};
    for (std::int64_t head = 0; head < heads; ++head) {
      const Pack<size, Scalar> values = load_constant<size>(from.at(token, head) + col);
      for (int j = 0; j < size; ++j) total[j] += wide(values.at[j]);
    }
    Pack<size, Scalar> sum;
    for (int j = 0; j < size; ++j) sum.at[j] = narrow<Scalar>(total[j]);
    store(to + token * to_length + col, sum);
  }
};

}  // namespace dovetail::exec

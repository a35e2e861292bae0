// SPDX-License-Identifier: Apache-2.0
// Records the kernels that turn queries and keys by the positions of their tokens: one for each, as they are priced.
#pragma once
#include <cstdint>
#include <numbers>
#include <type_traits>
#include <vector>

#include "exec/device/attention_heads.hpp"
#include "exec/device/rotary_bodies.hpp"
#include "exec/step/rotary_rule.hpp"

namespace dovetail::exec {

// The columns of queries and of keys, by sample and position. `to` may be `from`.
template <class Scalar>
struct QueryKeyColumns {
  Matrix<Scalar> query, key;
};

// Heads of which a part of `size` elements is turned. The matrices' rows begin with the first head's part.
template <class Scalar>
struct TurnedHeads {
  Matrix<const Scalar> from;
  std::int64_t from_step;
  Matrix<Scalar> to;
  std::int64_t to_step;
  std::int64_t heads, size;
};

// Rows that begin at multiples of a pack; tensors and scratch memory do.
template <class Item>
bool in_whole_packs(const Matrix<Item>& rows) {
  using Scalar = std::remove_const_t<Item>;
  const auto pack = static_cast<std::uintptr_t>(pack_size<Scalar>) * sizeof(Scalar);
  return reinterpret_cast<std::uintptr_t>(rows.data) % pack == 0 && rows.stride % pack_size<Scalar> == 0;
}

template <class Scalar>
void record_turn(Recorder& out, std::int64_t sequence, Turn turn, const TurnedHeads<Scalar>& heads) {
  std::vector<double> speeds = rotary_speeds(heads.size);
  for (double& speed : speeds) speed /= 2 * std::numbers::pi;
  const double* const turns = out.table(speeds);
  const std::int64_t pairs = heads.size / 2;
  const auto launch = [&]<int size>() {
    out.launch(
        heads.from.rows * (pairs / size),
        TurnHeads<Scalar, size>{heads.from.data, heads.from.stride, heads.from_step, heads.to.data, heads.to.stride,
                                heads.to_step, sequence, heads.heads, heads.size, turns, turn == Turn::On ? 1 : -1});
  };
  constexpr int size = pack_size<Scalar>;
  if (pairs % size == 0 && heads.from_step % size == 0 && heads.to_step % size == 0 && in_whole_packs(heads.from) &&
      in_whole_packs(heads.to))
    launch.template operator()<size>();
  else
    launch.template operator()<1>();
}

template <class Scalar>
void record_turn(Recorder& out, const LayerShape& s, Turn turn, const QueryKeyColumns<const Scalar>& from,
                 const QueryKeyColumns<Scalar>& to) {
  const std::int64_t step = s.head_size;
  record_turn<Scalar>(out, s.sequence, turn, TurnedHeads<Scalar>{from.query, step, to.query, step, s.heads, step});
  record_turn<Scalar>(out, s.sequence, turn, TurnedHeads<Scalar>{from.key, step, to.key, step, s.kv_heads, step});
}

}  // namespace dovetail::exec

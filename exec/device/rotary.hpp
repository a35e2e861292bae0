// Records the kernels that turn queries and keys by the positions of their tokens: one for each, as they are priced.
#pragma once
#include <numbers>
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

template <class Scalar>
void record_turn(Recorder& out, const LayerShape& s, Turn turn, const QueryKeyColumns<const Scalar>& from,
                 const QueryKeyColumns<Scalar>& to) {
  std::vector<double> speeds = rotary_speeds(s.head_size);
  for (double& speed : speeds) speed /= 2 * std::numbers::pi;
  const double* const turns = out.table(speeds);
  const std::int64_t pairs = s.head_size / 2;
  const auto launch = [&]<int size>(Matrix<const Scalar> source, Matrix<Scalar> target, std::int64_t heads) {
    out.launch(s.sequence_tokens() * (pairs / size),
               TurnHeads<Scalar, size>{source.data, source.stride, target.data, target.stride, s.sequence, heads,
                                       s.head_size, turns, turn == Turn::On ? 1 : -1});
  };
  // Tensors, scratch memory and heads then begin at multiples of a pack.
  const auto in_packs = [&](Matrix<const Scalar> source, Matrix<Scalar> target, std::int64_t heads) {
    constexpr int size = pack_size<Scalar>;
    if (pairs % size == 0)
      launch.template operator()<size>(source, target, heads);
    else
      launch.template operator()<1>(source, target, heads);
  };
  in_packs(from.query, to.query, s.heads);
  in_packs(from.key, to.key, s.kv_heads);
}

}  // namespace dovetail::exec

// SPDX-License-Identifier: Apache-2.0
// Decides which expert takes which token, at which capacity slot. It computes in double, whatever the kernels use, so
// that near ties fall alike everywhere.
#pragma once
#include <cstdint>
#include <vector>

#include "exec/step/layer_shape.hpp"
#include "models/question/expert_loads.hpp"

namespace dovetail::exec {

// One token in one expert.
struct Choice {
  static constexpr std::int32_t dropped = -1, no_slot_yet = -2;
  std::int32_t token = 0, expert = 0;
  std::int32_t slot = no_slot_yet;  // among the expert's capacity rows from this rank
  friend bool operator==(const Choice&, const Choice&) = default;
};

// The choices of one rank in one layer. Tokens choose: choice j of token t stands at t * top_k + j. Experts choose:
// slot c of expert e stands at e * capacity + c. Soft gates: empty.
using Routing = std::vector<Choice>;

// The choices that a gate makes by its expert scores (tokens, E), ties to the lower index; without slots where tokens
// choose.
Routing choose(const LayerShape& shape, const std::vector<double>& expert_scores);

// Gives slots to choices that have none yet: all first choices before all second choices, in token order or, batch
// prioritised, by the tokens' best scores; choices from the capacity on are dropped. Slots
// count from the shape's first one.
void assign_slots(const LayerShape& shape, const std::vector<double>& expert_scores, Routing& routing);

// Both.
Routing route(const LayerShape& shape, const std::vector<double>& expert_scores);

// The choices of tokens, without slots, if the workload gives a routing model: its drawn_choices(). Empty if the router
// decides.
Routing modelled_choices(const Experiment& experiment, int layer, int rank);

// The place of a choice that is not dropped among the shape's slots: expert C + slot, from its first slot on.
std::int64_t slot_place(const LayerShape& shape, const Choice& choice);

// The choices of some tokens of a rank, numbered from the first of them. Tokens choose.
Routing routing_of_part(const LayerShape& shape, RowRange tokens, const Routing& of_rank);

std::int64_t drop_count(const Routing& routing);
// The largest number of choices that any expert gets, kept or dropped.
std::int64_t largest_load(const Routing& routing, std::int64_t experts);

}  // namespace dovetail::exec

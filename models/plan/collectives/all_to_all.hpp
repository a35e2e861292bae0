// SPDX-License-Identifier: Apache-2.0
// The algorithms for an all-to-all: every rank of a group has one block for every rank, in group order.
#pragma once
#include <array>
#include <span>
#include <vector>

#include "models/plan/collectives/step.hpp"
#include "models/plan/plan.hpp"
#include "models/question/experiment.hpp"

namespace dovetail {

// Sizes of the group's nested parts, innermost first, each above 1; their product is W. Rank r of {8, 64} is
// number r % 8 of part r / 8.
using Levels = std::span<const int>;

// Each returns one exchange in the whole group when there are fewer than two levels.
std::vector<CollectiveStep> linear_steps(Levels levels);
std::vector<CollectiveStep> naive_local_steps(Levels levels);
std::vector<CollectiveStep> hierarchical_1d_steps(Levels levels);
std::vector<CollectiveStep> two_dimensional_steps(Levels levels);

struct AllToAllAlgorithm {
  AllToAll name;
  std::vector<CollectiveStep> (*steps)(Levels levels);
};
inline constexpr std::array<AllToAllAlgorithm, 4> all_to_all_algorithms{
    {{AllToAll::Linear, linear_steps},
     {AllToAll::NaiveLocal, naive_local_steps},
     {AllToAll::Hierarchical1d, hierarchical_1d_steps},
     {AllToAll::TwoDimensional, two_dimensional_steps}}};

// Levels may hold ones; those are left out. Never empty.
std::vector<CollectiveStep> all_to_all_steps(AllToAll algorithm, Levels levels);

// Whether rows are exchanged by an algorithm of steps: the plan's, or the one of the user's own that the experiment
// has.
bool has_steps(const Plan& plan, const Experiment& experiment);

// The steps of the all-to-all among the experts' ranks; empty where one exchange is all. Throws InputError for levels
// that do not fit the group, or cut a node, and for steps of the user's own that do not deliver.
std::vector<CollectiveStep> all_to_all_steps(const Plan& plan, const Experiment& experiment);

// With all_to_all node_deduplicated the ranks of each node among those that share experts, else 0. They are numbered
// node by node. Throws InputError where nodes have different numbers of them.
int deduplicating_ranks(const Plan& plan, const Experiment& experiment);

}  // namespace dovetail

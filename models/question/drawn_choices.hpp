// SPDX-License-Identifier: Apache-2.0
// Tokens that choose experts as the routing model says: which of them choose the same ones decides how often a token
// goes to one node.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "models/question/experiment.hpp"

namespace dovetail {

// The experts that each token of a rank chooses: choice j of token t stands at t top_k + j. They have exactly the loads
// of expert_loads(); which tokens choose an expert together with which other ones is drawn from the model's seed. Ranks
// and layers with the same loads choose alike, unless a trace says what each of them does. A token's experts are in as
// many of the router's groups as it may choose from (Router::top_groups), as far as the loads leave a way. Each thread
// keeps its last draws, since planners ask for the same ones for plan after plan: a draw has one address while it is
// kept.
std::shared_ptr<const std::vector<std::int32_t>> drawn_choices(const Experiment& experiment, int layer, int rank);

// The capacity rows of an expert that its choices take: all first choices before all second ones, in the order of the
// tokens. -1: beyond the capacity.
std::vector<std::int32_t> slots_of(const std::vector<std::int32_t>& choices, int top_k, std::int64_t experts,
                                   std::int64_t capacity);

// The groups of experts, of `groups` equal ones, that a token reaches on average, if all choices of `top_k` different
// experts are as likely: groups (1 - C(experts - experts / groups, top_k) / C(experts, top_k)).
double groups_of_a_token(std::int64_t groups, std::int64_t experts, std::int64_t top_k);

}  // namespace dovetail

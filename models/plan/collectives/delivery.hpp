// SPDX-License-Identifier: Apache-2.0
// Proves an all-to-all: moves labelled blocks by its steps and looks where they end.
#pragma once
#include <span>
#include <string>

#include "models/plan/collectives/step.hpp"

namespace dovetail {

// Every rank begins with a block for every rank, in group order, and must end with the blocks for it, in the order of
// their sources. Says what is wrong ("a block in another's place"); empty: nothing. The work grows with ranks^2.
std::string delivery_error(std::span<const CollectiveStep> steps, int ranks);

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
// Names of a grid's sizes, in parts: "2 ranks", "384 tokens", "hidden 192 and 512", "links x 4".
#pragma once
#include <string>
#include <vector>

#include "bench/validate/validation_grid.hpp"

namespace dovetail::bench {

using SizeParts = std::vector<std::string>;

// What a grid leaves open is not named, nor are groups of one rank.
SizeParts size_parts(const GridSize& size);
// "2 ranks, 384 tokens, hidden 192 and 512, 1 layer, links x 4"
std::string size_name(const GridSize& size);

SizeParts shared_parts(const std::vector<SizeParts>& sizes);
// All parts but these.
std::string name_without(const SizeParts& parts, const SizeParts& left_out);

}  // namespace dovetail::bench

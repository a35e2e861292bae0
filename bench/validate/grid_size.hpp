// SPDX-License-Identifier: Apache-2.0
// A size of a validation grid, and its name in parts: "2 ranks", "384 tokens", "hidden 192 and 512", "links x 4".
#pragma once
#include <string>
#include <vector>

#include "exec/run/scale_down.hpp"

namespace dovetail::bench {

struct GridSize {
  exec::HostScale scale;
  double link_slowdown = 1;  // real kernels: links are held to this many times their modelled time, which may follow
  double links_to_computation = 0;     // from this: how long they are busy over computation, in one chunk; 0: not given
  std::vector<std::string> set{};      // of this size alone: "workload.routing.kind=hot"
  std::vector<std::string> systems{};  // that are asked here; empty: all of the grid
};

using SizeParts = std::vector<std::string>;

// Neither groups of one rank are named, nor sizes that a grid leaves open.
SizeParts size_parts(const GridSize& size);
// "2 ranks, 384 tokens, hidden 192 and 512, 1 layer, links x 4"
std::string size_name(const GridSize& size);

SizeParts shared_parts(const std::vector<SizeParts>& sizes);
// All parts but these.
std::string name_without(const SizeParts& parts, const SizeParts& left_out);

}  // namespace dovetail::bench

// SPDX-License-Identifier: Apache-2.0
// The work of a sub-module of the user's own, as its author states it. Nothing checks these numbers against what the
// code does: simulators price them and results say whose they are.
#pragma once
#include <cstdint>
#include <vector>

#include "models/base/units.hpp"

namespace dovetail {

// `groups` products of (rows, inner) by (inner, columns): 2 groups rows columns inner flops in all. They are priced as
// the project's own products of that shape are.
struct MatrixProduct {
  std::int64_t rows = 0, columns = 0, inner = 0, groups = 1;
};

// The work of one op on one rank.
struct StatedWork {
  std::vector<MatrixProduct> products = {};  // at most 16, each a launch
  Bytes traffic = {};                        // of device memory, read plus written by all other kernels
  int kernels = 1;                           // launches of those, where there is traffic
};

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
// A loop over many numbers on all free cores.
#pragma once
#include <cstdint>
#include <functional>

namespace dovetail::exec {

// Calls body(first, last) for ranges that make up [0, count), at once on several threads where there is enough to do.
// `body` must not throw.
void in_parallel(std::int64_t count, const std::function<void(std::int64_t first, std::int64_t last)>& body);

}  // namespace dovetail::exec

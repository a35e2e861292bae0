// SPDX-License-Identifier: Apache-2.0
#include "exec/device/stamps.hpp"

#include <algorithm>

namespace dovetail::exec {

Stamps::Stamps(ComputeDevice& device, std::size_t ops)
    : device_(device),
      ops_(ops),
      memory_(device.allocate(static_cast<std::int64_t>((1 + 2 * ops) * sizeof(std::int64_t)), Place::Host)) {
  clear();
}

void Stamps::clear() {
  std::fill_n(times(), 1 + 2 * ops_, 0);
}

Interval Stamps::of(std::size_t op) const {
  const auto since_begin = [&](std::size_t at) {
    return Seconds(1e-9 * static_cast<double>(times()[at] - times()[0]));
  };
  return {since_begin(1 + 2 * op), since_begin(2 + 2 * op)};
}

std::vector<std::size_t> Stamps::unfinished() const {
  std::vector<std::size_t> ops;
  for (std::size_t op = 0; op < ops_; ++op)
    if (times()[1 + 2 * op] != 0 && times()[2 + 2 * op] == 0) ops.push_back(op);
  return ops;
}

}  // namespace dovetail::exec

// SPDX-License-Identifier: Apache-2.0
// Finds the order between commands of a device from their log alone: another way to find races than device clocks.
#pragma once
#include <span>
#include <vector>

#include "exec/device/deferred/deferred_device.hpp"

namespace dovetail::test {

class CommandOrder {
 public:
  explicit CommandOrder(std::span<const exec::LoggedCommand> log);
  bool before(std::size_t one, std::size_t other) const {
    return (before_[other][one / bits] >> (one % bits) & 1U) != 0;
  }

 private:
  static constexpr std::size_t bits = 64;
  std::vector<std::vector<std::uint64_t>> before_;  // by command, a bit for each other
};

struct CommandPair {
  std::size_t one, other;
};
// Two that touch the same byte, one of them to write, in no order.
std::vector<CommandPair> unordered_accesses(std::span<const exec::LoggedCommand> log);

}  // namespace dovetail::test

// SPDX-License-Identifier: Apache-2.0
// Ends every wait of a step once one op has failed.
#pragma once
#include <atomic>

namespace dovetail::exec {

// Thrown out of a wait because another op failed: not an error of its own.
class Cancelled {};

class Cancellation {
 public:
  bool requested() const { return requested_.load(std::memory_order_acquire); }
  void request() { requested_.store(true, std::memory_order_release); }
  void check() const {
    if (requested()) throw Cancelled{};
  }

 private:
  std::atomic<bool> requested_{false};
};

}  // namespace dovetail::exec

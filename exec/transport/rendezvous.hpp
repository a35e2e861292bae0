// SPDX-License-Identifier: Apache-2.0
// A barrier that can be cancelled.
#pragma once
#include <atomic>
#include <cstdint>

namespace dovetail::exec {

class Rendezvous {
 public:
  explicit Rendezvous(int members) : members_(static_cast<std::uint32_t>(members)) {}

  // Returns when all members have arrived; throws Cancelled after cancel().
  void arrive_and_wait();
  void cancel();

 private:
  const std::uint32_t members_;
  std::atomic<std::uint32_t> arrived_{0};
  std::atomic<std::uint32_t> round_{0};
  std::atomic<bool> cancelled_{false};
};

}  // namespace dovetail::exec

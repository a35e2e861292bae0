// SPDX-License-Identifier: Apache-2.0
#include "exec/transport/rendezvous.hpp"

#include "exec/run/cancellation.hpp"

namespace dovetail::exec {

void Rendezvous::arrive_and_wait() {
  const std::uint32_t round = round_.load(std::memory_order_acquire);
  if (cancelled_.load(std::memory_order_acquire)) throw Cancelled{};  // after reading the round: cancel() changes it
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == members_) {
    arrived_.store(0, std::memory_order_relaxed);
    round_.fetch_add(1, std::memory_order_acq_rel);
    round_.notify_all();
  } else {
    round_.wait(round, std::memory_order_acquire);
  }
  if (cancelled_.load(std::memory_order_acquire)) throw Cancelled{};
}

void Rendezvous::cancel() {
  cancelled_.store(true, std::memory_order_release);
  round_.fetch_add(1, std::memory_order_acq_rel);
  round_.notify_all();
}

}  // namespace dovetail::exec

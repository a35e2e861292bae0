// SPDX-License-Identifier: Apache-2.0
#include "exec/transport/mailbox.hpp"

#include <utility>

#include "exec/run/cancellation.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {

void Mailbox::put(int tag, Message message) {
  const std::scoped_lock lock(mutex_);
  check(!messages_.contains(tag), "a message before the last one with its tag was taken");
  messages_[tag] = std::move(message);
  arrived_.notify_all();
}

Message Mailbox::take(int tag) {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] { return cancelled_ || messages_.contains(tag); });
  if (cancelled_) throw Cancelled{};
  return std::move(messages_.extract(tag).mapped());
}

void Mailbox::cancel() {
  const std::scoped_lock lock(mutex_);
  cancelled_ = true;
  arrived_.notify_all();
}

}  // namespace dovetail::exec

// SPDX-License-Identifier: Apache-2.0
// Messages for one rank, kept until it takes them. Waiting for one can be cancelled.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

namespace dovetail::exec {

struct Message {
  std::vector<std::byte> bytes;
  double ready = 0;  // virtual time at which it has arrived
};

class Mailbox {
 public:
  // One message per tag at a time. Thread-safe.
  void put(int tag, Message message);
  // Waits for it; throws Cancelled after cancel().
  Message take(int tag);
  void cancel();

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<int, Message> messages_;  // by tag
  bool cancelled_ = false;
};

}  // namespace dovetail::exec

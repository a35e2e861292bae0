// SPDX-License-Identifier: Apache-2.0
// A fiber on which the commands of a lane run. Under the thread sanitizer each lane has a fiber and a stack of its own,
// so that the sanitizer sees lanes as it sees threads: it reports accesses that events do not order. In other builds
// commands run on the calling thread, and the marks below do nothing.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>

namespace dovetail::exec::deferred {

class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  static bool is_seen_as_thread();

  // Runs the call to its end and destroys it. It knows of what the caller has done, and the caller of nothing that it
  // does but the number that it returns.
  using Call = std::function<std::int64_t()>;
  std::int64_t run(Call call);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A mark orders the acquirer's work after the releaser's.
void release_mark(const void* mark);
void acquire_mark(const void* mark);

}  // namespace dovetail::exec::deferred

// SPDX-License-Identifier: Apache-2.0
// The bytes that a command touches: those that it says itself, and those that the compiler's hooks see where kernels
// are compiled with them.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dovetail::exec::deferred {

// Addresses [first, last).
struct Range {
  std::uintptr_t first = 0, last = 0;
  friend bool operator==(const Range&, const Range&) = default;
};

// A set of bytes. Loops walk through a few arrays at once, so most additions prolong one of the last ranges.
class Ranges {
 public:
  void add(Range range) {
    for (Range& open : open_)
      if (range.first <= open.last && range.last >= open.first) {
        if (range.first < open.first) open.first = range.first;
        if (range.last > open.last) open.last = range.last;
        return;
      }
    close(range);
  }
  std::vector<Range> take();  // in order, none of them next to another; leaves nothing

 private:
  void close(Range instead);

  std::array<Range, 8> open_{};
  std::size_t oldest_ = 0;
  std::vector<Range> closed_;
};

struct Trace {
  Ranges reads, writes;
};

// The trace of the command that this thread is running; null: none that is traced.
inline constinit thread_local Trace* current_trace = nullptr;

inline Range range_of(const void* first, std::int64_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(first);
  return {at, at + static_cast<std::uintptr_t>(bytes)};
}
inline void note_read(const void* first, std::int64_t bytes) {
  if (Trace* const trace = current_trace) trace->reads.add(range_of(first, bytes));
}
inline void note_write(const void* first, std::int64_t bytes) {
  if (Trace* const trace = current_trace) trace->writes.add(range_of(first, bytes));
}

}  // namespace dovetail::exec::deferred

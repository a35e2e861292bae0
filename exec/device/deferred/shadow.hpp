// SPDX-License-Identifier: Apache-2.0
// Who touched which bytes of a device's memory last, and who touches them without an order to that.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "exec/device/deferred/clock.hpp"
#include "exec/device/deferred/trace.hpp"
#include "exec/device/queue.hpp"

namespace dovetail::exec::deferred {

// A command as reports name it.
struct Accessor {
  std::string what;  // "copy", "fill", "product", or the kernel's body
  LaneId lane = 0;
  std::uint32_t number = 0;  // of the lane's commands, from 1
  Purpose purpose;
};

// Two commands that touch the same bytes, at least one of which writes them, and neither is known to be over when the
// other begins. Found in one order, whatever the order was in which they ran.
struct Race {
  Accessor one, other;
  bool one_writes = false, other_writes = false;
  Range bytes;  // the first of them
};
std::string to_string(const Race& race);

class Shadow {
 public:
  using Report = std::function<void(const Race&)>;
  explicit Shadow(Report report) : report_(std::move(report)) {}

  // `known`: what is over when `accessor` begins. Both lists as Ranges::take gives them.
  void touch(Accessor accessor, const Clock& known, const std::vector<Range>& reads, const std::vector<Range>& writes);
  void forget(Range range);  // memory that is given back
  void forget();             // everything so far is over for all that follows

 private:
  // Indices of accessors; -1: none.
  using Id = std::int32_t;
  struct State {
    std::uintptr_t last = 0;
    Id writer = -1;
    std::vector<Id> readers;  // since then; none is over for a later one
  };
  using States = std::map<std::uintptr_t, State>;  // by first byte; bytes that nobody touched have none

  States::iterator cut(std::uintptr_t at);  // the first state at or after it, once no state crosses it
  template <class Visit>
  void visit(Range range, Visit visit);  // states that cover it, made where there are none
  bool is_over(Id id, const Clock& known) const;
  void check_order(Id earlier, bool writes, Id accessor, bool accessor_writes, const Clock& known, Range bytes);

  Report report_;
  std::vector<Accessor> accessors_;
  States states_;
  std::map<std::pair<Id, Id>, bool> reported_;
};

}  // namespace dovetail::exec::deferred

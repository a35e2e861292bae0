// SPDX-License-Identifier: Apache-2.0
// The commands that queues of a deferred device hold.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <typeinfo>

#include "exec/device/deferred/clock.hpp"
#include "exec/device/deferred/fiber.hpp"
#include "exec/device/queue.hpp"

namespace dovetail::exec::deferred {

// By the device's clock, which counts what commands are said to last and not what they take here.
using Nanoseconds = std::int64_t;

// One record of an event: where in its lane it stands.
struct Record {
  std::int32_t number = 0;   // of all records
  std::int32_t capture = 0;  // that it is a part of; 0: none
  bool over = false;
  Nanoseconds time = 0;
  Clock clock;  // what is over then
};

// Waits, works and is recorded, in this order; any of them may be missing.
struct Command {
  std::shared_ptr<const Record> waits_for;
  std::function<bool()> ready;                         // something outside of the device that it waits for
  std::function<Nanoseconds(Nanoseconds begin)> work;  // returns the earliest end
  std::shared_ptr<Record> records;

  // For reports.
  const char* what = "";
  const std::type_info* body = nullptr;  // of a kernel's loop
  Purpose purpose;

  // When it was given out, and what the host knew to be over.
  Nanoseconds given = 0;
  std::shared_ptr<const Clock> known;
  std::size_t log = 0;  // where it stands in the log
};
std::string name_of(const Command& command);

struct Lane {
  LaneId id = 0;
  std::deque<Command> commands;
  Clock clock;
  Nanoseconds time = 0;
  Fiber fiber;
};

}  // namespace dovetail::exec::deferred

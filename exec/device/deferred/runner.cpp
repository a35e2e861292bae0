// SPDX-License-Identifier: Apache-2.0
#include "exec/device/deferred/runner.hpp"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <thread>
#include <utility>

#include "models/base/errors.hpp"

namespace dovetail::exec::deferred {
namespace {

constexpr std::size_t most_races = 1000;
constexpr std::chrono::microseconds between_polls{20};

// While it lives, this thread's accesses are of one command. Null: nothing is traced.
class Tracing {
 public:
  explicit Tracing(Trace* trace) : traces_(trace != nullptr) {
    if (traces_) current_trace = trace;
  }
  ~Tracing() {
    if (traces_) current_trace = nullptr;
  }
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;

 private:
  bool traces_;
};

}  // namespace

std::string name_of(const Command& command) {
  if (command.body == nullptr) return command.what;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(command.body->name(), nullptr, nullptr, &status), std::free);
  return status == 0 ? name.get() : command.body->name();
}

Runner::Runner(const DeferredSettings& settings)
    : settings_(settings), random_(settings.seed), shadow_([this](const Race& race) {
        if (races_.size() < most_races) races_.push_back(race);
        if (settings_.tell) settings_.tell(race);
      }) {
  settings_.trace = settings.trace && !Fiber::is_seen_as_thread();
}

std::shared_ptr<Lane> Runner::make_lane() {
  lanes_.push_back(std::make_shared<Lane>());
  lanes_.back()->id = next_lane_++;
  return lanes_.back();
}

std::shared_ptr<Record> Runner::make_record() {
  auto record = std::make_shared<Record>();
  record->number = next_record_++;
  return record;
}

void Runner::give(Lane& lane, Command command) {
  command.given = host_time_;
  command.known = host_knows_;
  if (settings_.log) command.log = log(lane, command);
  lane.commands.push_back(std::move(command));
}

std::size_t Runner::log(const Lane& lane, const Command& command) {
  if (log_is_over_) log_.clear();
  log_is_over_ = false;
  LoggedCommand logged;
  logged.lane = lane.id;
  logged.purpose = command.purpose;
  logged.waits_for = command.waits_for ? command.waits_for->number : 0;
  logged.records = command.records ? command.records->number : 0;
  log_.push_back(std::move(logged));
  return log_.size() - 1;
}

// All that was given before is over for all that is given after.
void Runner::run_all() {
  refuse_if_failed();
  constexpr double choices[] = {0, .5, .9, .99};
  stay_ = choices[random_() % std::size(choices)];
  while (std::ranges::any_of(lanes_, [](const auto& lane) { return !lane->commands.empty(); })) run_or_wait();
  see_all_lanes();
  for (const auto& lane : lanes_) {
    host_learns(lane->clock);
    host_time_ = std::max(host_time_, lane->time);
  }
  std::erase_if(lanes_, [](const auto& lane) { return lane.use_count() == 1; });
  last_ = nullptr;
  shadow_.forget();
  log_is_over_ = true;
}

void Runner::run(Lane& lane) {
  refuse_if_failed();
  while (!lane.commands.empty()) run_or_wait();
  if (settings_.log) log_[log(lane, {})].host_waits = true;
  host_learns(lane.clock);
  acquire_mark(&lane);
  host_time_ = std::max(host_time_, lane.time);
}

bool Runner::run_some(const Record& until) {
  refuse_if_failed();
  for (auto count = random_() % 8; count > 0 && !until.over; --count) run_or_wait();
  if (!until.over) return false;
  host_learns(until.clock);
  acquire_mark(&until);
  host_time_ = std::max(host_time_, until.time);
  return true;
}

void Runner::host_learns(const Clock& clock) {
  auto knows = std::make_shared<Clock>(*host_knows_);
  knows->learn(clock);
  host_knows_ = std::move(knows);
}

bool Runner::can_run(const Lane& lane) const {
  if (lane.commands.empty()) return false;
  const Command& first = lane.commands.front();
  return (!first.waits_for || first.waits_for->over) && (!first.ready || first.ready());
}

Lane* Runner::pick() {
  if (last_ != nullptr && std::uniform_real_distribution<>()(random_) < stay_ && can_run(*last_)) return last_;
  // All that can run are equally likely.
  std::uint64_t seen = 0;
  Lane* picked = nullptr;
  for (const auto& lane : lanes_)
    if (can_run(*lane) && random_() % ++seen == 0) picked = lane.get();
  return last_ = picked;
}

void Runner::run_or_wait() {
  if (Lane* const lane = pick()) return run_first(*lane);
  const auto waits_outside = [](const auto& lane) { return !lane->commands.empty() && lane->commands.front().ready; };
  if (std::ranges::none_of(lanes_, waits_outside))
    throw DeviceError("waiting for the device", "its queues wait for what nobody records");
  std::this_thread::sleep_for(between_polls);
}

void Runner::run_first(Lane& lane) {
  Command command = std::move(lane.commands.front());
  lane.commands.pop_front();
  lane.clock.learn(*command.known);
  lane.time = std::max(lane.time, command.given);
  if (command.waits_for) {
    lane.clock.learn(command.waits_for->clock);
    lane.time = std::max(lane.time, command.waits_for->time);
  }
  if (command.work) {
    if (failing_command_ == commands_run_) failed_ = accessor(lane, command);
    refuse_if_failed();
    ++commands_run_;
    const auto lasts = static_cast<Nanoseconds>(1 + random_() % 1000);
    lane.time = std::max(perform(lane, command), lane.time + lasts);
    lane.clock.count(lane.id);
  } else if (Fiber::is_seen_as_thread()) {
    perform(lane, command);
  }
  if (!command.records) return;
  command.records->time = lane.time;
  command.records->clock = lane.clock;
  command.records->over = true;
}

Accessor Runner::accessor(const Lane& lane, const Command& command) const {
  return {name_of(command), lane.id, lane.clock.of(lane.id) + 1, command.purpose};
}

// In the lane's fiber only pointers are used: counting references would put lanes in an order.
Nanoseconds Runner::perform(Lane& lane, Command& command) {
  Trace trace;
  Nanoseconds end = 0;
  {
    const Tracing tracing(settings_.trace ? &trace : nullptr);
    end = lane.fiber.run([lane = &lane, begin = lane.time, work = std::move(command.work),
                          waits_for = command.waits_for.get(), records = command.records.get()] {
      if (waits_for != nullptr) acquire_mark(waits_for);
      const Nanoseconds result = work ? work(begin) : begin;
      if (records != nullptr) release_mark(records);
      release_mark(lane);
      return result;
    });
  }
  if (!settings_.trace) return end;
  const std::vector<Range> reads = in_memory(trace.reads.take()), writes = in_memory(trace.writes.take());
  shadow_.touch(accessor(lane, command), lane.clock, reads, writes);
  if (settings_.log) {
    log_[command.log].reads = reads;
    log_[command.log].writes = writes;
  }
  return end;
}

// The rest is the host's: operands of kernels and their local variables.
std::vector<Range> Runner::in_memory(const std::vector<Range>& ranges) const {
  std::vector<Range> inside;
  for (const Range& range : ranges) {
    auto memory = memory_.upper_bound(range.first);
    if (memory != memory_.begin()) --memory;
    for (; memory != memory_.end() && memory->first < range.last; ++memory) {
      const Range common{std::max(range.first, memory->first), std::min(range.last, memory->second)};
      if (common.first < common.last) inside.push_back(common);
    }
  }
  return inside;
}

bool Runner::has_memory(Range range) const {
  auto after = memory_.upper_bound(range.first);
  return range.first == range.last || (after != memory_.begin() && std::prev(after)->second >= range.last);
}

void Runner::remove_memory(Range range) {
  see_all_lanes();
  memory_.erase(range.first);
  shadow_.forget(range);
}

void Runner::fail_at(std::optional<std::int64_t> command) {
  failing_command_ = command;
  if (command) *failing_command_ += commands_run_;
}

// The host sees what ran on each lane.
void Runner::see_all_lanes() const {
  for (const auto& lane : lanes_) acquire_mark(lane.get());
}

void Runner::refuse_if_failed() const {
  if (!failed_) return;
  see_all_lanes();
  throw DeviceError("waiting for the device", fmt::format("command {} failed", *failing_command_));
}

}  // namespace dovetail::exec::deferred

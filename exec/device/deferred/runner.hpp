// SPDX-License-Identifier: Apache-2.0
// Runs the commands of lanes in a random legal order, and checks what they touch.
#pragma once
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "exec/device/deferred/command.hpp"
#include "exec/device/deferred/deferred_settings.hpp"
#include "exec/device/deferred/shadow.hpp"

namespace dovetail::exec::deferred {

class Runner {
 public:
  explicit Runner(const DeferredSettings& settings);

  std::shared_ptr<Lane> make_lane();
  std::shared_ptr<Record> make_record();
  void give(Lane& lane, Command command);

  // Each throws DeviceError where no lane can go on, or from a planted failure on.
  void run_all();
  void run(Lane& lane);                // until it is empty
  bool run_some(const Record& until);  // a few commands; whether the record is over

  void add_memory(Range range) { memory_[range.first] = range.last; }
  void remove_memory(Range range);
  bool has_memory(Range range) const;

  void fail_at(std::optional<std::int64_t> command);
  void refuse_if_failed() const;
  const std::optional<Accessor>& failed() const { return failed_; }
  std::int64_t commands_run() const { return commands_run_; }
  const std::vector<Race>& races() const { return races_; }
  void forget_races() { races_.clear(); }
  const std::vector<LoggedCommand>& log() const { return log_; }

 private:
  std::size_t log(const Lane& lane, const Command& command);  // where it stands
  Accessor accessor(const Lane& lane, const Command& command) const;
  Lane* pick();  // a lane whose first command can run; null: none
  bool can_run(const Lane& lane) const;
  void run_or_wait();
  void run_first(Lane& lane);
  Nanoseconds perform(Lane& lane, Command& command);
  std::vector<Range> in_memory(const std::vector<Range>& ranges) const;
  void see_all_lanes() const;
  void host_learns(const Clock& clock);

  DeferredSettings settings_;
  std::mt19937_64 random_;
  double stay_ = 0;  // how likely the same lane goes on
  std::vector<std::shared_ptr<Lane>> lanes_;
  Lane* last_ = nullptr;
  LaneId next_lane_ = 0;
  std::int32_t next_record_ = 1;
  Nanoseconds host_time_ = 1;  // 0 is what stamps are before they are written
  std::shared_ptr<const Clock> host_knows_ = std::make_shared<const Clock>();
  std::map<std::uintptr_t, std::uintptr_t> memory_;
  std::vector<Race> races_;
  Shadow shadow_;
  std::int64_t commands_run_ = 0;
  std::optional<std::int64_t> failing_command_;
  std::optional<Accessor> failed_;
  std::vector<LoggedCommand> log_;
  bool log_is_over_ = false;  // the next command begins another
};

}  // namespace dovetail::exec::deferred

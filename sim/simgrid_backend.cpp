// SPDX-License-Identifier: Apache-2.0
#include "sim/simgrid_backend.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "models/base/errors.hpp"
#include "models/price/contention.hpp"
#include "models/price/sharing.hpp"
#include "models/time/activity_progress.hpp"
#include "models/time/fair_sharing.hpp"
#include "models/time/host_clock.hpp"
#include "sim/simulation.hpp"

namespace dovetail::sim {
namespace {

// SimGrid reports the end of one of these: the fixed time of an op, an activity, the time until a change of speed, or
// until the host issues an op. A tag modulo `parts` says which.
enum class Part { Fixed, Work, Speed, Issue };
constexpr int parts = 4;
std::int64_t tag_of(std::size_t id, Part part) {
  return parts * static_cast<std::int64_t>(id) + static_cast<int>(part);
}

// Edges are counted here and never handed to SimGrid, where chaining activities costs quadratic time.
class Execution {
 public:
  explicit Execution(const PricedSchedule& priced);
  Timeline run();

 private:
  void check_times() const;
  void link();
  void begin_ready();
  void begin(OpId op);
  void begin_issued(OpId op);
  bool begin_alone(OpId op);
  void start(std::size_t id, Part part, std::span<const Demand> demands);
  void finished(std::int64_t tag);
  void fixed_passed(OpId op);
  void begin_activity(ActivityId activity);
  void end_activity(ActivityId activity);
  void end(OpId op);
  bool collect_demands(ActivityId activity);
  Seconds longest_demand() const;
  int own_resource(StreamId stream) const { return static_cast<int>(priced_.resources.size()) + stream; }
  // Nothing can begin before the op at hand does or ends: SimGrid need not be asked.
  bool nothing_else() const { return running_ == 0 && begun_ == ready_.size(); }
  Seconds now() const { return Seconds(simulation_.now()) + skipped_; }

  const PricedSchedule& priced_;
  const Schedule& schedule_;
  Simulation simulation_;
  ActivityProgress progress_;
  HostClock host_;
  std::vector<bool> shared_;                    // by resource, as in fair_sharing.hpp
  IdVector<OpId, std::int32_t> waiting_;        // edges from ops that have not ended
  IdVector<OpId, std::int32_t> end_successor_;  // one past its last in successors_; its first is where op - 1 ends
  std::vector<OpId> successors_;
  std::vector<OpId> ready_;  // in the order in which ops became so
  std::size_t begun_ = 0;    // of ready_
  std::size_t ended_ = 0;
  int running_ = 0;              // activities of SimGrid
  Seconds skipped_;              // time that passed without SimGrid
  std::vector<Demand> demands_;  // of the activity being started
  Timeline timeline_;
};

// The simulation has more resources than the schedule: one for each stream, for times in which nothing is shared, and
// one for each change of speed, for the time until then.
Execution::Execution(const PricedSchedule& priced)
    : priced_(priced),
      schedule_(*priced.schedule),
      simulation_(priced.resources.size() + schedule_.streams.size() + priced.speed_changes.size(),
                  !priced.speed_changes.empty()),
      progress_(priced),
      host_(priced),
      waiting_(schedule_.ops.size()) {
  timeline_.kind = ResultKind::Simulated;
  timeline_.ops.resize(schedule_.ops.size());
  ready_.reserve(schedule_.ops.size());
  check_times();
  shared_ = shared_resources(priced);
  link();
}

void Execution::check_times() const {
  for (const OpId op : schedule_.ops.ids()) {
    check(std::isfinite(priced_.fixed[op].value()) && priced_.fixed[op] >= Seconds(0), "fixed time");
    priced_.for_each_demand(op, [&](const Demand& demand) {
      check(static_cast<std::size_t>(demand.resource) < priced_.resources.size() && demand.multiplicity > 0,
            "demand on a resource");
      check(std::isfinite(demand.seconds.value()) && demand.seconds >= Seconds(0), "seconds of a demand");
    });
  }
}

void Execution::link() {
  end_successor_.assign(schedule_.ops.size() + 1, 0);
  schedule_.for_each_edge([&](OpId from, OpId to) {
    ++end_successor_[OpId(from + 1)];
    ++waiting_[to];
  });
  std::partial_sum(end_successor_.begin(), end_successor_.end(), end_successor_.begin());
  successors_.resize(static_cast<std::size_t>(end_successor_.back()));
  schedule_.for_each_edge(
      [&](OpId from, OpId to) { successors_[static_cast<std::size_t>(end_successor_[from]++)] = to; });
}

Timeline Execution::run() {
  for (std::size_t i = 0; i < priced_.speed_changes.size(); ++i) {
    const Demand until{own_resource(StreamId(schedule_.streams.size() + i)), priced_.speed_changes[i].at, 1};
    if (until.seconds > Seconds(0))
      start(i, Part::Speed, {&until, 1});
    else
      simulation_.set_speed(priced_.speed_changes[i].resource, priced_.speed_changes[i].speed);
  }
  for (const OpId op : waiting_.ids())
    if (waiting_[op] == 0) ready_.push_back(op);
  begin_ready();
  simulation_.run([this](std::int64_t tag) { finished(tag); });
  check(ended_ == schedule_.ops.size(), "ops of a cycle never run");
  return std::move(timeline_);
}

void Execution::finished(std::int64_t tag) {
  const auto id = static_cast<std::size_t>(tag / parts);
  --running_;
  switch (static_cast<Part>(tag % parts)) {
    case Part::Fixed:
      fixed_passed(OpId(id));
      break;
    case Part::Work:
      end_activity(ActivityId(id));
      break;
    case Part::Speed:
      simulation_.set_speed(priced_.speed_changes[id].resource, priced_.speed_changes[id].speed);
      break;
    case Part::Issue:
      begin_issued(OpId(id));
      break;
  }
  begin_ready();
}

// A loop, not a recursion: ops without work end as soon as they begin, and there may be long chains of them.
void Execution::begin_ready() {
  while (begun_ < ready_.size()) begin(ready_[begun_++]);
}

// The stream of an op that waits for the host is idle: its own resource counts the time.
void Execution::begin(OpId op) {
  if (!host_.takes_time()) return begin_issued(op);
  const Seconds issued = host_.issued(op);
  const Demand until{own_resource(schedule_.ops[op].stream), issued - now(), 1};
  if (until.seconds <= Sharing::used_up * issued) return begin_issued(op);
  if (!nothing_else()) return start(op, Part::Issue, {&until, 1});
  skipped_ += until.seconds;
  begin_issued(op);
}

void Execution::begin_issued(OpId op) {
  timeline_.ops[op].start = now();
  if (priced_.first_activity.empty() && begin_alone(op)) return;
  const Demand fixed{own_resource(schedule_.ops[op].stream), priced_.fixed[op], 1};
  if (fixed.seconds > Seconds(0))
    start(op, Part::Fixed, {&fixed, 1});
  else
    fixed_passed(op);
}

// Takes an op that is one activity and meets no other as one time; whether it was such an op.
bool Execution::begin_alone(OpId op) {
  const bool shares = collect_demands(PricedSchedule::only_activity(op));
  const Demand alone{own_resource(schedule_.ops[op].stream), priced_.fixed[op] + longest_demand(), 1};
  const bool as_ever = !shares || priced_.speed_changes.empty();
  if (as_ever && nothing_else()) {
    skipped_ += alone.seconds;
    end(op);
  } else if (shares) {
    return false;
  } else if (alone.seconds == Seconds(0)) {
    end(op);
  } else {
    start(op, Part::Work, {&alone, 1});
  }
  return true;
}

void Execution::start(std::size_t id, Part part, std::span<const Demand> demands) {
  ++running_;
  simulation_.start(tag_of(id, part), demands);
}

void Execution::fixed_passed(OpId op) {
  progress_.fixed_passed(
      op, [this](ActivityId activity) { begin_activity(activity); }, [this](OpId ended) { end(ended); });
}

void Execution::begin_activity(ActivityId activity) {
  collect_demands(activity);
  if (demands_.empty())
    end_activity(activity);
  else
    start(activity, Part::Work, demands_);
}

void Execution::end_activity(ActivityId activity) {
  progress_.ended(activity, [this](OpId op) { end(op); });
}

void Execution::end(OpId op) {
  ++ended_;
  timeline_.ops[op].finish = now();
  host_.ended(op, now());
  const auto first = static_cast<std::size_t>(op == 0 ? 0 : end_successor_[OpId(op - 1)]);
  for (std::size_t i = first; i < static_cast<std::size_t>(end_successor_[op]); ++i)
    if (--waiting_[successors_[i]] == 0) ready_.push_back(successors_[i]);
}

// The demands of an activity that are not zero, into demands_; whether any is on a resource that is shared.
bool Execution::collect_demands(ActivityId activity) {
  demands_.clear();
  bool shares = false;
  for (const Demand& demand : priced_.demands_of(activity)) {
    if (demand.seconds == Seconds(0)) continue;
    demands_.push_back(demand);
    shares = shares || shared_[static_cast<std::size_t>(demand.resource)];
  }
  return shares;
}

Seconds Execution::longest_demand() const {
  Seconds longest;
  for (const Demand& demand : demands_) longest = std::max(longest, demand.seconds);
  return longest;
}

}  // namespace

Timeline SimGridBackend::run(const PricedSchedule& priced) {
  return Execution(priced).run();
}

}  // namespace dovetail::sim

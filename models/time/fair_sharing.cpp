// SPDX-License-Identifier: Apache-2.0
#include "models/time/fair_sharing.hpp"

#include <algorithm>
#include <limits>

#include "models/base/errors.hpp"
#include "models/price/sharing.hpp"
#include "models/time/activity_progress.hpp"
#include "models/time/host_clock.hpp"

namespace dovetail {
namespace {

constexpr double no_issue = std::numeric_limits<double>::infinity();

class SharingRun {
 public:
  explicit SharingRun(const PricedSchedule& priced)
      : priced_(priced),
        s_(*priced.schedule),
        sharing_(priced),
        progress_(priced),
        next_(s_.streams.size()),
        queue_(s_.streams.size()),
        busy_(s_.streams.size()),
        done_(s_.ops.size()),
        host_(priced) {
    for (const OpId i : s_.ops.ids()) queue_[s_.ops[i].stream].push_back(i);
    timeline_.kind = ResultKind::Predicted;
    timeline_.ops.resize(s_.ops.size());
  }

  Timeline run() {
    begin_ready();
    while (!sharing_.idle() || !fixed_.empty() || next_issue_ < no_issue) {
      double step = std::min(sharing_.next(), next_issue_ - sharing_.now());
      for (const Fixed& f : fixed_) step = std::min(step, f.left);
      advance(step);
      begin_ready();
    }
    for (const StreamId stream : queue_.ids())
      check(next_[stream] == queue_[stream].size(), "ops of a cycle never run");
    return std::move(timeline_);
  }

 private:
  struct Fixed {  // an op whose fixed time passes
    OpId op;
    double left;
  };
  bool ready(OpId op) const {
    const auto before = s_.dependencies_of(s_.ops[op]);
    return std::ranges::all_of(before, [&](OpId id) { return done_[id]; });
  }

  // Whether the host has issued an op that could begin otherwise; else it may be the next that the host makes begin.
  bool issued(OpId op) {
    if (!host_.takes_time()) return true;
    const double at = host_.issued(op).value();
    if (at <= sharing_.now() * (1 + Sharing::used_up)) return true;
    next_issue_ = std::min(next_issue_, at);
    return false;
  }

  // Ops that take no time end as they begin and may let others begin: until nothing changes.
  void begin_ready() {
    while (ended_) {
      ended_ = false;
      next_issue_ = no_issue;
      for (const StreamId stream : queue_.ids())
        while (next_[stream] < queue_[stream].size() && !busy_[stream] && ready(queue_[stream][next_[stream]]) &&
               issued(queue_[stream][next_[stream]]))
          begin(queue_[stream][next_[stream]++]);
    }
  }

  void begin(OpId op) {
    timeline_.ops[op].start = Seconds(sharing_.now());
    busy_[s_.ops[op].stream] = true;
    if (priced_.fixed[op] > Seconds(0))
      fixed_.push_back({op, priced_.fixed[op].value()});
    else
      begin_activities(op);
  }

  void begin_activities(OpId op) {
    progress_.fixed_passed(
        op, [this](ActivityId activity) { begin_activity(activity); }, [this](OpId ended) { end(ended); });
  }

  void begin_activity(ActivityId activity) {
    if (demands_something(priced_.demands_of(activity)))
      sharing_.begin(activity);
    else
      end_activity(activity);
  }

  void end_activity(ActivityId activity) {
    progress_.ended(activity, [this](OpId op) { end(op); });
  }

  void end(OpId op) {
    timeline_.ops[op].finish = Seconds(sharing_.now());
    busy_[s_.ops[op].stream] = false;
    done_[op] = ended_ = true;
    host_.ended(op, Seconds(sharing_.now()));
  }

  void advance(double step) {
    sharing_.advance(step, [&](ActivityId activity) { end_activity(activity); });
    passed_.clear();
    std::erase_if(fixed_, [&](Fixed& f) {
      f.left -= step;
      if (f.left > Sharing::used_up * step) return false;
      passed_.push_back(f.op);
      return true;
    });
    for (OpId op : passed_) begin_activities(op);
    ended_ = ended_ || sharing_.now() * (1 + Sharing::used_up) >= next_issue_;
  }

  const PricedSchedule& priced_;
  const Schedule& s_;
  Sharing sharing_;
  ActivityProgress progress_;
  IdVector<StreamId, std::size_t> next_;  // the first op of its queue that has not begun
  IdVector<StreamId, std::vector<OpId>> queue_;
  IdVector<StreamId, bool> busy_;
  IdVector<OpId, bool> done_;
  HostClock host_;
  bool ended_ = true;             // an op has, or none has begun, or the host has issued one: others may begin
  double next_issue_ = no_issue;  // of the ops that wait for the host alone
  std::vector<Fixed> fixed_;
  std::vector<OpId> passed_;  // whose fixed time just has
  Timeline timeline_;
};

}  // namespace

Timeline run_sharing(const PricedSchedule& priced) {
  return SharingRun(priced).run();
}

}  // namespace dovetail

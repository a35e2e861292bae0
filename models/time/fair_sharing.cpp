#include "models/time/fair_sharing.hpp"

#include <algorithm>

#include "models/base/errors.hpp"
#include "models/price/sharing.hpp"
#include "models/time/activity_progress.hpp"

namespace dovetail {
namespace {

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
        done_(s_.ops.size()) {
    for (const OpId i : s_.ops.ids()) queue_[s_.ops[i].stream].push_back(i);
    timeline_.kind = ResultKind::Predicted;
    timeline_.ops.resize(s_.ops.size());
  }

  Timeline run() {
    begin_ready();
    while (!sharing_.idle() || !fixed_.empty()) {
      double step = sharing_.next();
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

  // Ops that take no time end as they begin and may let others begin: until nothing changes.
  void begin_ready() {
    while (ended_) {
      ended_ = false;
      for (const StreamId stream : queue_.ids())
        while (next_[stream] < queue_[stream].size() && !busy_[stream] && ready(queue_[stream][next_[stream]]))
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
  }

  const PricedSchedule& priced_;
  const Schedule& s_;
  Sharing sharing_;
  ActivityProgress progress_;
  IdVector<StreamId, std::size_t> next_;  // the first op of its queue that has not begun
  IdVector<StreamId, std::vector<OpId>> queue_;
  IdVector<StreamId, bool> busy_;
  IdVector<OpId, bool> done_;
  bool ended_ = true;  // an op has, or none has begun: others may begin
  std::vector<Fixed> fixed_;
  std::vector<OpId> passed_;  // whose fixed time just has
  Timeline timeline_;
};

}  // namespace

Timeline run_sharing(const PricedSchedule& priced) {
  return SharingRun(priced).run();
}

}  // namespace dovetail

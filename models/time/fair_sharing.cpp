#include "models/time/fair_sharing.hpp"

#include <algorithm>
#include <limits>

#include "models/base/errors.hpp"
#include "models/price/fair_rates.hpp"
#include "models/time/activity_progress.hpp"

namespace dovetail {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();
constexpr double used_up = 1e-12;  // what is left of a time that counts as nothing

bool demands_something(std::span<const Demand> demands) {
  return std::ranges::any_of(demands, [](const Demand& d) { return d.seconds > Seconds(0); });
}

// Activities that share resources as time passes.
class Sharing {
 public:
  explicit Sharing(const PricedSchedule& priced) : changes_(priced.speed_changes), rates_(priced) {}

  void begin(ActivityId activity) {
    running_.push_back({activity});
    left_.push_back(1);
    changed_ = true;
  }

  bool idle() const { return running_.empty(); }

  // How long all rates stay as they are.
  double next() {
    double step = next_change_ < changes_.size() ? changes_[next_change_].at.value() - now_ : never;
    if (changed_) rates_.solve(running_);
    changed_ = false;
    for (std::size_t i = 0; i < running_.size(); ++i) step = std::min(step, left_[i] / running_[i].rate);
    return std::max(step, 0.0);
  }

  // Lets time pass, no more than next(). ended(activity) for those that do.
  template <class Ended>
  void advance(double step, Ended ended) {
    check(step < never, "an activity that never ends");
    now_ += step;
    for (; next_change_ < changes_.size() && changes_[next_change_].at.value() <= now_; ++next_change_) {
      rates_.set_speed(changes_[next_change_].resource, changes_[next_change_].speed);
      changed_ = true;
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < running_.size(); ++i) {
      const double time = left_[i] / running_[i].rate - step;
      if (time <= used_up * now_) {
        ended(running_[i].activity);
        changed_ = true;
        continue;
      }
      running_[kept] = running_[i];
      left_[kept++] = left_[i] - step * running_[i].rate;
    }
    running_.resize(kept);
    left_.resize(kept);
  }

  double now() const { return now_; }

 private:
  std::span<const SpeedChange> changes_;
  std::size_t next_change_ = 0;
  FairRates rates_;
  std::vector<Running> running_;
  std::vector<double> left_;  // by running activity: 1 at its start, 0 at its end
  bool changed_ = false;      // what runs, or how fast resources are
  double now_ = 0;
};

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
    for (std::size_t i = 0; i < s_.ops.size(); ++i)
      queue_[static_cast<std::size_t>(s_.ops[i].stream)].push_back(static_cast<OpId>(i));
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
    for (std::size_t stream = 0; stream < queue_.size(); ++stream)
      check(next_[stream] == queue_[stream].size(), "ops of a cycle never run");
    return std::move(timeline_);
  }

 private:
  struct Fixed {  // an op whose fixed time passes
    OpId op;
    double left;
  };
  bool ready(OpId op) const {
    const auto before = s_.dependencies_of(s_.ops[static_cast<std::size_t>(op)]);
    return std::ranges::all_of(before, [&](OpId id) { return done_[static_cast<std::size_t>(id)]; });
  }

  // Ops that take no time end as they begin and may let others begin: until nothing changes.
  void begin_ready() {
    while (ended_) {
      ended_ = false;
      for (std::size_t stream = 0; stream < queue_.size(); ++stream)
        while (next_[stream] < queue_[stream].size() && !busy_[stream] && ready(queue_[stream][next_[stream]]))
          begin(queue_[stream][next_[stream]++]);
    }
  }

  void begin(OpId op) {
    const auto i = static_cast<std::size_t>(op);
    timeline_.ops[i].start = Seconds(sharing_.now());
    busy_[static_cast<std::size_t>(s_.ops[i].stream)] = true;
    if (priced_.fixed[i] > Seconds(0))
      fixed_.push_back({op, priced_.fixed[i].value()});
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
    const auto i = static_cast<std::size_t>(op);
    timeline_.ops[i].finish = Seconds(sharing_.now());
    busy_[static_cast<std::size_t>(s_.ops[i].stream)] = false;
    done_[i] = ended_ = true;
  }

  void advance(double step) {
    sharing_.advance(step, [&](ActivityId activity) { end_activity(activity); });
    passed_.clear();
    std::erase_if(fixed_, [&](Fixed& f) {
      f.left -= step;
      if (f.left > used_up * step) return false;
      passed_.push_back(f.op);
      return true;
    });
    for (OpId op : passed_) begin_activities(op);
  }

  const PricedSchedule& priced_;
  const Schedule& s_;
  Sharing sharing_;
  ActivityProgress progress_;
  std::vector<std::size_t> next_;         // by stream: the first op of its queue that has not begun
  std::vector<std::vector<OpId>> queue_;  // by stream
  std::vector<bool> busy_;                // by stream
  std::vector<bool> done_;                // by op
  bool ended_ = true;                     // an op has, or none has begun: others may begin
  std::vector<Fixed> fixed_;
  std::vector<OpId> passed_;  // whose fixed time just has
  Timeline timeline_;
};

}  // namespace

std::vector<bool> shared_resources(const PricedSchedule& priced) {
  std::vector<StreamId> user(priced.resources.size(), -1);
  std::vector<bool> shared(priced.resources.size());
  for (const SpeedChange& change : priced.speed_changes) shared[static_cast<std::size_t>(change.resource)] = true;
  for (std::size_t i = 0; i < priced.schedule->ops.size(); ++i) {
    const StreamId stream = priced.schedule->ops[i].stream;
    priced.for_each_demand(static_cast<OpId>(i), [&](const Demand& demand) {
      if (demand.seconds <= Seconds(0)) return;
      const auto r = static_cast<std::size_t>(demand.resource);
      check(r < shared.size(), "an op demands a resource that is not there");
      if (user[r] >= 0 && user[r] != stream) shared[r] = true;
      user[r] = stream;
    });
  }
  return shared;
}

bool is_contended(const PricedSchedule& priced) {
  return std::ranges::count(shared_resources(priced), true) > 0;
}

std::vector<Seconds> ends_together(const PricedSchedule& priced, std::span<const ActivityId> activities) {
  Sharing sharing(priced);
  std::vector<Seconds> ends(activities.size());
  for (ActivityId activity : activities)
    if (demands_something(priced.demands_of(activity))) sharing.begin(activity);
  while (!sharing.idle())
    sharing.advance(sharing.next(), [&](ActivityId ended) {
      for (std::size_t i = 0; i < activities.size(); ++i)
        if (activities[i] == ended) ends[i] = Seconds(sharing.now());
    });
  return ends;
}

Timeline run_sharing(const PricedSchedule& priced) {
  return SharingRun(priced).run();
}

}  // namespace dovetail

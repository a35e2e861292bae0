// SPDX-License-Identifier: Apache-2.0
#include "tests/support/hand_made.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "models/price/contention.hpp"
#include "models/time/fair_sharing.hpp"

namespace dovetail::test {

HandMade::HandMade(int streams, int resources) {
  schedule_.classes.resize(1);
  schedule_.streams.resize(static_cast<std::size_t>(streams));
  for (int r = 0; r < resources; ++r) priced_.resources.push_back("r" + std::to_string(r));
  priced_.first_demand.push_back(0);
  priced_.first_activity.push_back(0);
}

OpId HandMade::add(StreamId stream, std::initializer_list<OpId> dependencies, double fixed,
                   std::initializer_list<Demand> demands) {
  return add(stream, std::span(dependencies.begin(), dependencies.size()), fixed,
             std::span(demands.begin(), demands.size()));
}

OpId HandMade::add(StreamId stream, std::span<const OpId> dependencies, double fixed, std::span<const Demand> demands) {
  const bool one_each = one_each_;
  const ActivityId only = activity(demands);
  one_each_ = one_each;
  return add_of(stream, dependencies, fixed, {&only, 1});
}

ActivityId HandMade::activity(std::span<const Demand> demands) {
  one_each_ = false;
  priced_.demands.insert(priced_.demands.end(), demands.begin(), demands.end());
  priced_.first_demand.push_back(static_cast<std::int32_t>(priced_.demands.size()));
  return ActivityId(priced_.activity_count() - 1);
}

ActivityId HandMade::activity(std::initializer_list<Demand> demands) {
  return activity(std::span(demands.begin(), demands.size()));
}

OpId HandMade::add_of(StreamId stream, std::initializer_list<OpId> dependencies, double fixed,
                      std::initializer_list<ActivityId> activities) {
  return add_of(stream, std::span(dependencies.begin(), dependencies.size()), fixed,
                std::span(activities.begin(), activities.size()));
}

OpId HandMade::add_of(StreamId stream, std::span<const OpId> dependencies, double fixed,
                      std::span<const ActivityId> activities) {
  Op op;
  op.stream = stream;
  op.dependencies.first = static_cast<std::int32_t>(schedule_.dependencies.size());
  schedule_.dependencies.insert(schedule_.dependencies.end(), dependencies.begin(), dependencies.end());
  if (last_wait_.exists()) schedule_.dependencies.push_back(last_wait_);
  op.dependencies.last = static_cast<std::int32_t>(schedule_.dependencies.size());
  priced_.activities.insert(priced_.activities.end(), activities.begin(), activities.end());
  priced_.first_activity.push_back(static_cast<std::int32_t>(priced_.activities.size()));
  priced_.fixed.push_back(Seconds(fixed));
  if (launch_ > 0) priced_.launch.push_back(Seconds(launch_));
  return schedule_.ops.add(op);
}

OpId HandMade::wait(StreamId stream) {
  std::vector<OpId> all;
  for (const OpId op : schedule_.ops.ids()) all.push_back(op);
  const OpId id = add(stream, all, 0, std::span<const Demand>());
  schedule_.ops[id].work = HostWait{};
  if (launch_ > 0) priced_.launch.back() = Seconds(0);
  return last_wait_ = id;
}

void HandMade::change(int resource, double at, double speed) {
  priced_.speed_changes.push_back({resource, Seconds(at), speed});
}

namespace {

// Tests put values into demands that no simulation could take; one activity alone has no use for one.
Seconds busy_alone(const PricedSchedule& priced, OpId op) {
  std::vector<ActivityId> own;
  priced.for_each_activity(op, [&](ActivityId activity) { own.push_back(activity); });
  Seconds busy;
  if (own.size() > 1)
    for (Seconds end : ends_together(priced, own)) busy = std::max(busy, end);
  else
    priced.for_each_demand(op, [&](const Demand& demand) { busy = std::max(busy, demand.seconds); });
  return busy;
}

}  // namespace

// Durations are those of the ops without their twins, which is what they take at least.
PricedSchedule HandMade::priced() const {
  PricedSchedule result = priced_;
  result.speed_changes.clear();
  for (const OpId op : result.fixed.ids()) {
    result.duration.push_back(result.fixed[op] + busy_alone(result, op));
  }
  result.speed_changes = priced_.speed_changes;
  if (one_each_) {
    result.activities.clear();
    result.first_activity.clear();
  }
  result.schedule = std::make_shared<const Schedule>(schedule_);
  result.contended = is_contended(result);
  return result;
}

namespace {

class RandomSchedule {
 public:
  RandomSchedule(std::uint32_t seed, const RandomShape& shape)
      : shape_(shape),
        random_(seed),
        exponent_(std::log(shape.shortest), std::log(shape.longest)),
        made_(shape.streams, shape.streams + shape.shared_resources) {}

  PricedSchedule priced() {
    for (int i = 0; i < shape_.ops;) {
      if (shape_.launches) made_.launches_take(seconds());
      i += shape_.launches && below(10) == 0 ? add_wait() : shape_.activities == 0 ? add_op(i) : add_ops(i);
    }
    double at = 0;
    for (int i = 0; i < shape_.speed_changes; ++i) {
      at += seconds();
      made_.change(below(shape_.streams + shape_.shared_resources), at, (1 + below(10)) / 10.0);
    }
    return made_.priced();
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint32_t>(n)); }
  double seconds() { return std::exp(exponent_(random_)); }

  void choose_dependencies(int op) {
    dependencies_.clear();
    if (op > 0)
      for (int k = below(4); k > 0; --k) dependencies_.push_back(OpId(below(op)));
  }

  void choose_demands(StreamId stream) {
    const double busy = seconds();
    demands_.push_back(use(stream, busy));
    for (int r = 0; r < shape_.shared_resources; ++r)
      if (below(2) == 0) demands_.push_back(use(shape_.streams + r, busy * (1 + below(9)) / 10, 1 + below(4)));
  }

  int add_wait() {
    made_.wait(StreamId(below(shape_.streams)));
    return 1;
  }

  int add_op(int op) {
    const StreamId stream(below(shape_.streams));
    choose_dependencies(op);
    demands_.clear();
    const double fixed = below(3) == 0 ? 0 : seconds();
    if (below(8) != 0) choose_demands(stream);
    made_.add(stream, dependencies_, fixed, demands_);
    return 1;
  }

  // One op, or two of different streams that share an activity and depend on the same.
  int add_ops(int op) {
    const StreamId stream(below(shape_.streams));
    choose_dependencies(op);
    const bool twins = shape_.streams > 1 && op + 1 < shape_.ops && below(2) == 0;
    const ActivityId both = twins ? random_activity(stream) : ActivityId();
    add_of_activities(stream, both);
    if (!twins) return 1;
    add_of_activities(StreamId((stream + 1 + below(shape_.streams - 1)) % shape_.streams), both);
    return 2;
  }

  ActivityId random_activity(StreamId stream) {
    demands_.clear();
    if (below(8) != 0) choose_demands(stream);
    return made_.activity(demands_);
  }

  void add_of_activities(StreamId stream, ActivityId shared) {
    std::vector<ActivityId> activities;
    for (int k = below(shape_.activities + 1); k > 0; --k) activities.push_back(random_activity(stream));
    if (shared.exists()) activities.push_back(shared);
    made_.add_of(stream, dependencies_, below(3) == 0 ? 0 : seconds(), activities);
  }

  RandomShape shape_;
  std::mt19937 random_;
  std::uniform_real_distribution<double> exponent_;
  HandMade made_;
  std::vector<OpId> dependencies_;
  std::vector<Demand> demands_;
};

}  // namespace

PricedSchedule random_priced(std::uint32_t seed, const RandomShape& shape) {
  return RandomSchedule(seed, shape).priced();
}

}  // namespace dovetail::test

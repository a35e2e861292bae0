#include "models/fair_sharing.hpp"

#include <algorithm>
#include <limits>

#include "models/errors.hpp"

namespace dovetail {
namespace {

constexpr double used_up = 1e-12;  // what is left of a resource, or of an op, that counts as nothing

// An op that runs: first `fixed` seconds, then `work` (1 at the start, 0 at the end) at `rate` per second.
struct Active {
  OpId op;
  double fixed, work, rate = 0;
  bool filling = false;  // its rate may still grow
  bool works() const { return fixed <= 0; }
  double left() const { return works() ? (work <= 0 ? 0 : work / rate) : fixed; }
};

class SharingRun {
 public:
  explicit SharingRun(const PricedSchedule& priced)
      : priced_(priced),
        s_(*priced.schedule),
        next_(s_.streams.size()),
        queue_(s_.streams.size()),
        done_(s_.ops.size()),
        capacity_(priced.resources.size()),
        flows_(priced.resources.size()) {
    for (std::size_t i = 0; i < s_.ops.size(); ++i)
      queue_[static_cast<std::size_t>(s_.ops[i].stream)].push_back(static_cast<OpId>(i));
    timeline_.kind = ResultKind::Predicted;
    timeline_.ops.resize(s_.ops.size());
  }

  Timeline run() {
    begin_ready();
    while (!active_.empty()) {
      share();
      double step = std::numeric_limits<double>::infinity();
      for (const Active& a : active_) step = std::min(step, a.left());
      advance(step);
      begin_ready();
    }
    for (std::size_t stream = 0; stream < queue_.size(); ++stream)
      check(next_[stream] == queue_[stream].size(), "ops of a cycle never run");
    return std::move(timeline_);
  }

 private:
  bool ready(OpId op) const {
    const auto before = s_.dependencies_of(s_.ops[static_cast<std::size_t>(op)]);
    return std::ranges::all_of(before, [&](OpId id) { return done_[static_cast<std::size_t>(id)]; });
  }

  bool busy(StreamId stream) const {
    return std::ranges::any_of(
        active_, [&](const Active& a) { return s_.ops[static_cast<std::size_t>(a.op)].stream == stream; });
  }

  // Ops that take no time end as they begin and may let others begin: until nothing changes.
  void begin_ready() {
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t stream = 0; stream < queue_.size(); ++stream) {
        while (next_[stream] < queue_[stream].size() && !busy(static_cast<StreamId>(stream)) &&
               ready(queue_[stream][next_[stream]])) {
          begin(queue_[stream][next_[stream]++]);
          changed = true;
        }
      }
    }
  }

  void begin(OpId op) {
    const auto i = static_cast<std::size_t>(op);
    timeline_.ops[i].start = Seconds(now_);
    const bool works = priced_.duration[i] > priced_.fixed[i];
    if (priced_.fixed[i] > Seconds(0) || works)
      active_.push_back({op, priced_.fixed[i].value(), works ? 1.0 : 0.0});
    else
      end(op);
  }

  void end(OpId op) {
    timeline_.ops[static_cast<std::size_t>(op)].finish = Seconds(now_);
    done_[static_cast<std::size_t>(op)] = true;
  }

  template <class Visit>
  void for_each_demand(const Active& a, Visit visit) const {
    for (const Demand& d : priced_.demands_of(a.op))
      if (d.seconds > Seconds(0)) visit(d, static_cast<std::size_t>(d.resource));
  }

  // Rates by progressive filling: every round each resource offers its rest evenly to its flows, each op takes what
  // the scarcest of its resources allows, and ops on a resource that is used up are settled.
  void share() {
    std::ranges::fill(capacity_, 1.0);
    for (Active& a : active_) {
      a.rate = 0;
      a.filling = a.works();
    }
    while (std::ranges::any_of(active_, &Active::filling)) {
      std::ranges::fill(flows_, 0);
      for (const Active& a : active_)
        if (a.filling) for_each_demand(a, [&](const Demand& d, std::size_t r) { flows_[r] += d.multiplicity; });
      offers_.assign(capacity_.begin(), capacity_.end());
      for (Active& a : active_)
        if (a.filling) fill(a);
      for (Active& a : active_)
        for_each_demand(a, [&](const Demand&, std::size_t r) {
          if (capacity_[r] <= used_up) a.filling = false;
        });
    }
  }

  void fill(Active& a) {
    double more = std::numeric_limits<double>::infinity();
    for_each_demand(a, [&](const Demand& d, std::size_t r) {
      more = std::min(more, offers_[r] * d.multiplicity / flows_[r] / d.seconds.value());
    });
    a.rate += more;
    for_each_demand(a, [&](const Demand& d, std::size_t r) { capacity_[r] -= more * d.seconds.value(); });
  }

  void advance(double step) {
    now_ += step;
    for (Active& a : active_) {
      if (!a.works())
        a.fixed = a.fixed - step <= used_up * step ? 0 : a.fixed - step;
      else
        a.work = a.left() - step <= used_up * now_ ? 0 : a.work - step * a.rate;
    }
    for (const Active& a : active_)
      if (a.works() && a.work <= 0) end(a.op);
    std::erase_if(active_, [](const Active& a) { return a.works() && a.work <= 0; });
  }

  const PricedSchedule& priced_;
  const Schedule& s_;
  std::vector<std::size_t> next_;          // by stream: the first op of its queue that has not begun
  std::vector<std::vector<OpId>> queue_;   // by stream
  std::vector<bool> done_;                 // by op
  std::vector<Active> active_;             // at most one per stream
  std::vector<double> capacity_, offers_;  // by resource: what is left; at the start of a round
  std::vector<int> flows_;                 // by resource: of ops whose rate may still grow
  double now_ = 0;
  Timeline timeline_;
};

}  // namespace

std::vector<bool> shared_resources(const PricedSchedule& priced) {
  std::vector<StreamId> user(priced.resources.size(), -1);
  std::vector<bool> shared(priced.resources.size());
  for (std::size_t i = 0; i < priced.schedule->ops.size(); ++i) {
    const StreamId stream = priced.schedule->ops[i].stream;
    for (const Demand& demand : priced.demands_of(static_cast<OpId>(i))) {
      if (demand.seconds <= Seconds(0)) continue;
      const auto r = static_cast<std::size_t>(demand.resource);
      check(r < shared.size(), "an op demands a resource that is not there");
      if (user[r] >= 0 && user[r] != stream) shared[r] = true;
      user[r] = stream;
    }
  }
  return shared;
}

Timeline run_sharing(const PricedSchedule& priced) {
  return SharingRun(priced).run();
}

}  // namespace dovetail

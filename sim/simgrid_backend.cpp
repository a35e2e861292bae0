#include "sim/simgrid_backend.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "models/errors.hpp"
#include "models/fair_sharing.hpp"
#include "sim/simulation.hpp"

namespace dovetail::sim {
namespace {

// What SimGrid reports back: the end of the fixed time of an op, or of the op.
enum class Part { Fixed, Work };
std::int64_t tag_of(std::size_t op, Part part) {
  return 2 * static_cast<std::int64_t>(op) + (part == Part::Work);
}

// Calls visit(from, to) for each pair of ops where `to` waits for the end of `from`: dependencies and stream order.
template <class Visit>
void for_each_edge(const Schedule& schedule, Visit&& visit) {
  std::vector<OpId> last(schedule.streams.size(), -1);
  for (std::size_t op = 0; op < schedule.ops.size(); ++op) {
    for (OpId dependency : schedule.dependencies_of(schedule.ops[op])) visit(static_cast<std::size_t>(dependency), op);
    OpId& previous = last[static_cast<std::size_t>(schedule.ops[op].stream)];
    if (previous >= 0) visit(static_cast<std::size_t>(previous), op);
    previous = static_cast<OpId>(op);
  }
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
  void begin(std::size_t op);
  void start(std::size_t op, Part part, std::span<const Demand> demands);
  void end(std::size_t op);
  bool collect_demands(std::size_t op);
  Seconds longest_demand() const;
  Seconds now() const { return Seconds(simulation_.now()) + skipped_; }

  const PricedSchedule& priced_;
  const Schedule& schedule_;
  Simulation simulation_;
  std::vector<bool> shared_;                 // by resource: ops of several streams use it
  std::vector<std::int32_t> waiting_;        // by op: edges from ops that have not ended
  std::vector<std::int32_t> end_successor_;  // by op: one past its last in successors_; its first is where op - 1 ends
  std::vector<std::size_t> successors_;
  std::vector<std::size_t> ready_;  // in the order in which ops became so
  std::size_t begun_ = 0;           // of ready_
  std::size_t ended_ = 0;
  int running_ = 0;              // activities of SimGrid
  Seconds skipped_;              // time that passed without SimGrid
  std::vector<Demand> demands_;  // of the op being started
  Timeline timeline_;
};

// Beside the resources of the schedule there is one of each stream's own, for times in which nothing is shared.
Execution::Execution(const PricedSchedule& priced)
    : priced_(priced),
      schedule_(*priced.schedule),
      simulation_(priced.resources.size() + schedule_.streams.size()),
      waiting_(schedule_.ops.size()) {
  timeline_.kind = ResultKind::Simulated;
  timeline_.ops.resize(schedule_.ops.size());
  ready_.reserve(schedule_.ops.size());
  check_times();
  shared_ = shared_resources(priced);
  link();
}

void Execution::check_times() const {
  for (std::size_t op = 0; op < schedule_.ops.size(); ++op) {
    check(std::isfinite(priced_.fixed[op].value()) && priced_.fixed[op] >= Seconds(0), "fixed time");
    for (const Demand& demand : priced_.demands_of(static_cast<OpId>(op))) {
      check(static_cast<std::size_t>(demand.resource) < priced_.resources.size() && demand.multiplicity > 0,
            "demand on a resource");
      check(std::isfinite(demand.seconds.value()) && demand.seconds >= Seconds(0), "seconds of a demand");
    }
  }
}

void Execution::link() {
  end_successor_.assign(schedule_.ops.size() + 1, 0);
  for_each_edge(schedule_, [&](std::size_t from, std::size_t to) {
    ++end_successor_[from + 1];
    ++waiting_[to];
  });
  for (std::size_t op = 1; op < end_successor_.size(); ++op) end_successor_[op] += end_successor_[op - 1];
  successors_.resize(static_cast<std::size_t>(end_successor_.back()));
  for_each_edge(schedule_, [&](std::size_t from, std::size_t to) {
    successors_[static_cast<std::size_t>(end_successor_[from]++)] = to;
  });
}

Timeline Execution::run() {
  for (std::size_t op = 0; op < waiting_.size(); ++op)
    if (waiting_[op] == 0) ready_.push_back(op);
  begin_ready();
  simulation_.run([this](std::int64_t tag) {
    const auto op = static_cast<std::size_t>(tag / 2);
    --running_;
    if (tag == tag_of(op, Part::Fixed)) {
      collect_demands(op);
      start(op, Part::Work, demands_);
    } else {
      end(op);
    }
    begin_ready();
  });
  check(ended_ == schedule_.ops.size(), "ops of a cycle never run");
  return std::move(timeline_);
}

// A loop, not a recursion: ops without work end as soon as they begin, and there may be long chains of them.
void Execution::begin_ready() {
  while (begun_ < ready_.size()) begin(ready_[begun_++]);
}

void Execution::begin(std::size_t op) {
  timeline_.ops[op].start = now();
  const Seconds fixed = priced_.fixed[op];
  const bool shares = collect_demands(op);
  const Seconds alone = fixed + longest_demand();
  if (running_ == 0 && begun_ == ready_.size()) {
    skipped_ += alone;  // nothing can begin before this op ends: SimGrid need not be asked
    end(op);
  } else if (!shares && alone == Seconds(0)) {
    end(op);
  } else if (shares && fixed == Seconds(0)) {
    start(op, Part::Work, demands_);
  } else {
    const Demand own{static_cast<int>(priced_.resources.size()) + schedule_.ops[op].stream, shares ? fixed : alone, 1};
    start(op, shares ? Part::Fixed : Part::Work, {&own, 1});
  }
}

void Execution::start(std::size_t op, Part part, std::span<const Demand> demands) {
  ++running_;
  simulation_.start(tag_of(op, part), demands);
}

void Execution::end(std::size_t op) {
  ++ended_;
  timeline_.ops[op].finish = now();
  const auto first = static_cast<std::size_t>(op == 0 ? 0 : end_successor_[op - 1]);
  for (std::size_t i = first; i < static_cast<std::size_t>(end_successor_[op]); ++i)
    if (--waiting_[successors_[i]] == 0) ready_.push_back(successors_[i]);
}

// The demands of an op that are not zero, into demands_; whether any is on a resource that other streams use.
bool Execution::collect_demands(std::size_t op) {
  demands_.clear();
  bool shares = false;
  for (const Demand& demand : priced_.demands_of(static_cast<OpId>(op))) {
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

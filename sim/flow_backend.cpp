// SPDX-License-Identifier: Apache-2.0
#include "sim/flow_backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "models/base/errors.hpp"
#include "models/network/network_load.hpp"
#include "models/network/rank_flows.hpp"
#include "models/time/host_clock.hpp"
#include "sim/child.hpp"
#include "sim/flow_simulation.hpp"
#include "sim/platform_file.hpp"

namespace dovetail::sim {
namespace {

constexpr int most_gpus = 1024;  // whose all-to-all is a million messages: seconds and 2 GB

// The class of the schedule that stands for each rank.
std::vector<int> classes_of_ranks(const Experiment& e, const Schedule& s) {
  std::vector<int> classes(static_cast<std::size_t>(e.cluster.gpus()));
  if (s.classes.size() == 1) return classes;
  const std::optional<FoldedNetwork> folded =
      e.parallelism.pp > 1 ? std::nullopt : std::optional<FoldedNetwork>(fold(e, s));
  for (std::size_t rank = 0; rank < classes.size(); ++rank)
    classes[rank] = folded ? folded->class_of(static_cast<int>(rank)) : s.class_of_rank(static_cast<int>(rank));
  return classes;
}

// An op on one of its ranks.
struct Instance {
  OpId op{0};
  int rank = 0;
  int waiting = 0;     // for others of its rank, or for its stream
  int flows = 0;       // that have not ended
  bool begun = false;  // else it waits for its host
};

class FlowRun {
 public:
  FlowRun(const Experiment& e, const PricedSchedule& priced, FlowSimulation& simulation)
      : e_(e), priced_(priced), s_(*priced.schedule), flows_(e, s_), simulation_(simulation) {
    const std::vector<int> classes = classes_of_ranks(e, s_);
    ranks_.resize(s_.classes.size());
    for (std::size_t rank = 0; rank < classes.size(); ++rank) {
      auto& ranks = ranks_[static_cast<std::size_t>(classes[rank])];
      place_.push_back({classes[rank], static_cast<int>(ranks.size())});
      ranks.push_back(static_cast<int>(rank));
      if (!priced.launch.empty()) hosts_.push_back(hosts_.empty() ? HostClock(priced) : hosts_.front());
    }
    add_instances();
    timeline_.kind = ResultKind::Simulated;
    timeline_.ops.assign(s_.ops.size(), {Seconds(1e300), Seconds(0)});
  }

  Timeline run() {
    for (std::size_t i = 0; i < instances_.size(); ++i)
      if (instances_[i].waiting == 0) ready_.push_back(i);
    begin_ready();
    simulation_.run([this](std::int64_t tag) { ended(tag); });
    check(done_ == instances_.size(), "ops of a cycle never run");
    return std::move(timeline_);
  }

 private:
  struct Place {
    int rank_class, at;  // at: in ranks_ of the class
  };
  // Flows of an op and its twins in other classes.
  struct Exchange {
    std::vector<RankFlow> flows;
    std::vector<std::vector<std::size_t>> of_rank;
    std::vector<int> waiting;  // by flow: ends whose fixed time has not passed
  };

  std::size_t instance(OpId op, int at) const {
    return first_[static_cast<std::size_t>(op)] + static_cast<std::size_t>(at);
  }
  const Op& op_of(const Instance& i) const { return s_.ops[i.op]; }

  void add_instances() {
    for (const OpId op : s_.ops.ids()) {
      const int rank_class = s_.class_of(s_.ops[op]);
      check(s_.twin(s_.first_twin(op), rank_class) == op, "an op for each class in turn");
      first_.push_back(instances_.size());
      for (int rank : ranks_[static_cast<std::size_t>(rank_class)]) instances_.push_back({op, rank});
    }
    successors_.resize(instances_.size());
    s_.for_each_edge([this](OpId before, OpId op) { add_edges(before, op); });
  }

  // Adds the edges of each rank; between stages they lead from each rank to the one at the same place.
  void add_edges(OpId before, OpId op) {
    const auto ranks = static_cast<int>(ranks_[static_cast<std::size_t>(s_.class_of(s_.ops[op]))].size());
    for (int at = 0; at < ranks; ++at) {
      successors_[instance(before, at)].push_back(instance(op, at));
      ++instances_[instance(op, at)].waiting;
    }
  }

  void begin_ready() {
    while (!ready_.empty()) {
      const std::size_t i = ready_.back();
      ready_.pop_back();
      begin(i);
    }
  }

  Exchange& exchange(OpId op) {
    const auto [at, fresh] = exchanges_.try_emplace(s_.first_twin(op));
    Exchange& exchange = at->second;
    if (!fresh) return exchange;
    exchange.flows = flows_.of(s_.ops[op]);
    exchange.of_rank.resize(place_.size());
    for (std::size_t f = 0; f < exchange.flows.size(); ++f) {
      const std::vector<int> ranks = taking_part(op, exchange.flows[f]);
      for (int rank : ranks) exchange.of_rank[static_cast<std::size_t>(rank)].push_back(f);
      exchange.waiting.push_back(static_cast<int>(ranks.size()));
    }
    return exchange;
  }

  // The ranks whose op the flow belongs to. Who receives from another stage has an op of its own; a ring goes on as its
  // slowest part does, so it is over on all its ranks at once.
  std::vector<int> taking_part(OpId op, const RankFlow& flow) const {
    const Op& of = s_.ops[op];
    if (of.collective() == Collective::Send) return {flow.from};
    if (of.collective() == Collective::AllToAll) return {flow.from, flow.to};
    return group_members(s_.groups, of.group(), flow.from);
  }

  void begin(std::size_t i) {
    const Instance& it = instances_[i];
    const Seconds wait =
        hosts_.empty() ? Seconds(0) : hosts_[static_cast<std::size_t>(it.rank)].issued(it.op) - simulation_.now();
    if (wait > Seconds(0))
      simulation_.start_delay(-1 - static_cast<std::int64_t>(i), wait);
    else
      begin_issued(i);
  }

  void begin_issued(std::size_t i) {
    Instance& it = instances_[i];
    it.begun = true;
    Interval& when = timeline_.ops[it.op];
    when.start = std::min(when.start, simulation_.now());
    const auto& own = exchange(it.op).of_rank[static_cast<std::size_t>(it.rank)];
    it.flows = static_cast<int>(own.size());
    const Seconds time = exchange(it.op).flows.empty() ? priced_.duration[it.op] : priced_.fixed[it.op];
    if (time > Seconds(0))
      simulation_.start_delay(-1 - static_cast<std::int64_t>(i), time);
    else
      time_passed(i);
  }

  void time_passed(std::size_t i) {
    const Instance& it = instances_[i];
    if (it.flows == 0) return end(i);
    Exchange& all = exchange(it.op);
    for (std::size_t f : all.of_rank[static_cast<std::size_t>(it.rank)]) {
      if (--all.waiting[f] > 0) continue;
      started_.push_back({s_.first_twin(it.op), f});
      const RankFlow& flow = all.flows[f];
      simulation_.start_flow(static_cast<std::int64_t>(started_.size()) - 1, flow.from, flow.to, flow.bytes);
    }
  }

  void ended(std::int64_t tag) {
    if (tag < 0) {
      const auto i = static_cast<std::size_t>(-1 - tag);
      instances_[i].begun ? time_passed(i) : begin_issued(i);
    } else {
      const auto [op, f] = started_[static_cast<std::size_t>(tag)];
      for (int rank : taking_part(op, exchanges_.at(op).flows[f])) flow_ended(op, rank);
    }
    begin_ready();
  }

  void flow_ended(OpId leader, int rank) {
    const auto [rank_class, at] = place_[static_cast<std::size_t>(rank)];
    const std::size_t i = instance(s_.twin(leader, rank_class), at);
    if (--instances_[i].flows == 0) end(i);
  }

  void end(std::size_t i) {
    Interval& when = timeline_.ops[instances_[i].op];
    when.finish = std::max(when.finish, simulation_.now());
    ++done_;
    if (!hosts_.empty())
      hosts_[static_cast<std::size_t>(instances_[i].rank)].ended(instances_[i].op, simulation_.now());
    for (std::size_t next : successors_[i])
      if (--instances_[next].waiting == 0) ready_.push_back(next);
  }

  const Experiment& e_;
  const PricedSchedule& priced_;
  const Schedule& s_;
  RankFlows flows_;
  FlowSimulation& simulation_;
  std::vector<std::vector<int>> ranks_;  // by class
  std::vector<Place> place_;             // by rank
  std::vector<HostClock> hosts_;         // by rank; empty: launches take no time
  std::vector<Instance> instances_;
  std::vector<std::size_t> first_;  // by op: of its instances
  std::vector<std::vector<std::size_t>> successors_;
  std::map<OpId, Exchange> exchanges_;                 // by the first of the twins
  std::vector<std::pair<OpId, std::size_t>> started_;  // flows: exchange and place in it
  std::vector<std::size_t> ready_;
  std::size_t done_ = 0;
  Timeline timeline_;
};

// Links that are all but still make times that mean nothing.
void require_finite(const Timeline& timeline) {
  for (const Interval& when : timeline.ops)
    if (!std::isfinite(when.start.value()) || !std::isfinite(when.finish.value()) || when.finish < when.start)
      throw ChildEnded("simgrid-flow", "times that are no numbers");
}

}  // namespace

FlowBackend::FlowBackend(const std::string& platform) {
  if (!platform.empty()) platform_ = read_platform(platform);
}
FlowBackend::~FlowBackend() = default;

void FlowBackend::prepare(const Experiment& experiment) {
  if (experiment.cluster.gpus() > most_gpus)
    throw InputError(
        fmt::format("simgrid-flow: {} GPUs, expected at most {}: it simulates every message of every GPU; "
                    "the other backends count equal GPUs once",
                    experiment.cluster.gpus(), most_gpus));
  if (!platform_ && !experiment.cluster.network)
    throw InputError(fmt::format("simgrid-flow: cluster {} has no \"network\", and no --platform is given",
                                 experiment.cluster.name));
  experiment_ = std::make_unique<const Experiment>(experiment);
}

Timeline FlowBackend::run(const PricedSchedule& priced) {
  check(experiment_ != nullptr, "simgrid-flow knows no experiment");
  if (!priced.speed_changes.empty()) throw InputError("simgrid-flow: events are not simulated, leave them out");
  const int gpus = experiment_->cluster.gpus();
  const auto simulate = [&] {
    FlowSimulation simulation =
        platform_ ? FlowSimulation(gpus, *platform_) : FlowSimulation(gpus, Network(experiment_->cluster));
    return FlowRun(*experiment_, priced, simulation).run();
  };
  if (!platform_) return in_child(simulate);
  try {
    Timeline timeline = in_child(simulate);
    require_finite(timeline);
    return timeline;
  } catch (const ChildEnded& error) {
    throw InputError(Location{platform_->file, 1, 1, ""},
                     fmt::format("SimGrid cannot use this platform: {}", error.what()));
  }
}

}  // namespace dovetail::sim

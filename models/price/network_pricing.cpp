// SPDX-License-Identifier: Apache-2.0
#include "models/price/network_pricing.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "models/price/contention.hpp"

namespace dovetail {
namespace {

// Flows on one resource are counted in units of their greatest common divisor; with more, in shares of the most: a
// flow less or more hardly matters then, and simulators pay for each.
constexpr double most_flows = 64;

class FlowWriter {
 public:
  FlowWriter(NetworkLoad& load, int base, PricedSchedule& priced)
      : load_(load), base_(base), p_(priced), s_(*priced.schedule), of_op_(s_.ops.size()) {}

  void write() {
    const auto twins = static_cast<std::size_t>(s_.twins());
    for (std::size_t i = 0; i < s_.ops.size(); i += twins)
      for (const NetworkActivity& activity : load_.activities(s_.ops[OpId(i)])) add(activity, OpId(i));
    list_activities();
    count_flows();
    for (std::size_t i = 0; i < s_.ops.size(); i += twins) set_durations(OpId(i), OpId(i + twins));
  }

 private:
  void add(const NetworkActivity& activity, OpId first) {
    const auto id = static_cast<ActivityId>(p_.activity_count());
    std::map<int, std::pair<Seconds, double>> demands;  // a class may send to itself
    for (const NetworkDemand& demand : activity.demands) {
      auto& [seconds, flows] = demands[base_ + demand.resource];
      seconds += demand.seconds;
      flows += demand.flows;
    }
    for (const auto& [resource, demand] : demands) {
      if (demand.first <= Seconds(0)) continue;
      p_.demands.push_back({resource, demand.first, 1});
      flows_.push_back(demand.second);
    }
    if (p_.demands.size() == static_cast<std::size_t>(p_.first_demand.back())) return;
    p_.first_demand.push_back(static_cast<std::int32_t>(p_.demands.size()));
    for (int c : activity.classes) of_op_[s_.twin(first, c)].push_back(id);
  }

  void list_activities() {
    p_.first_activity.push_back(0);
    for (const OpId i : s_.ops.ids()) {
      const ActivityId own = PricedSchedule::only_activity(i);
      if (!p_.demands_of(own).empty() || of_op_[i].empty()) p_.activities.push_back(own);
      p_.activities.insert(p_.activities.end(), of_op_[i].begin(), of_op_[i].end());
      p_.first_activity.push_back(static_cast<std::int32_t>(p_.activities.size()));
    }
  }

  // Counts the flows of added demands. A kernel's demand on device memory is one flow.
  void count_flows() {
    struct Count {
      std::int64_t divisor = 0;
      double most = 0;
    };
    const std::size_t first = p_.demands.size() - flows_.size();
    std::map<int, Count> counts;
    for (std::size_t i = 0; i < p_.demands.size(); ++i) {
      if (p_.demands[i].resource < base_) continue;
      Count& count = counts[p_.demands[i].resource];
      const double flows = i < first ? 1 : flows_[i - first];
      count.divisor = std::gcd(count.divisor, std::llround(flows));
      count.most = std::max(count.most, flows);
    }
    for (std::size_t i = 0; i < flows_.size(); ++i) {
      const Count& count = counts.at(p_.demands[first + i].resource);
      const double unit = std::max(static_cast<double>(count.divisor), count.most / most_flows);
      p_.demands[first + i].multiplicity = std::max(1, static_cast<int>(std::lround(flows_[i] / unit)));
    }
  }

  void set_durations(OpId first, OpId last) {
    std::vector<ActivityId> all;
    for (OpId i = first; i < last; ++i) p_.for_each_activity(i, [&](ActivityId activity) { all.push_back(activity); });
    std::ranges::sort(all);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    if (static_cast<std::size_t>(last - first) == all.size()) return;  // as they were
    const std::vector<Seconds> ends = ends_together(p_, all);
    for (OpId i = first; i < last; ++i) {
      Seconds longest;
      p_.for_each_activity(i, [&](ActivityId activity) {
        const auto at = std::ranges::lower_bound(all, activity) - all.begin();
        longest = std::max(longest, ends[static_cast<std::size_t>(at)]);
      });
      p_.duration[i] = p_.fixed[i] + longest;
    }
  }

  NetworkLoad& load_;
  const int base_;
  PricedSchedule& p_;
  const Schedule& s_;
  IdVector<OpId, std::vector<ActivityId>> of_op_;  // those of flows
  std::vector<double> flows_;                      // of the demands that were added
};

}  // namespace

std::optional<NetworkLoad> network_load(const Experiment& experiment, const Schedule& schedule) {
  if (!experiment.cluster.network) return std::nullopt;
  FoldedNetwork network = fold(experiment, schedule);
  if (static_cast<std::size_t>(network.classes()) != schedule.classes.size()) {
    if (experiment.cluster.network->slow.empty() && !schedule.routed) return std::nullopt;
    Experiment alike = experiment;
    alike.cluster.network->slow.clear();
    if (schedule.node_ranks > 0)  // tokens that choose alike, since nobody pads such exchanges
      alike.workload.routing = RoutingModel{};
    else
      alike.workload.message_sizes = MessageSizes::Padded;
    network = fold(alike, schedule);
    if (static_cast<std::size_t>(network.classes()) != schedule.classes.size()) return std::nullopt;
    return NetworkLoad(alike, schedule, std::move(network));
  }
  return NetworkLoad(experiment, schedule, std::move(network));
}

void add_flows(NetworkLoad& load, int base, PricedSchedule& priced) {
  FlowWriter(load, base, priced).write();
}

}  // namespace dovetail

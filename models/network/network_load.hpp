// SPDX-License-Identifier: Apache-2.0
// The load that the ops of a schedule put on a described network: flows over links and traffic in device memory. The
// calibrated time of an op is no part of this: the op takes at least as long as each of the two.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/network/folded_network.hpp"
#include "models/network/routed_rows.hpp"
#include "models/question/experiment.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail {

// The classes of ranks whose ops, links or messages are unlike. A schedule of one pipeline stage has its ops once for
// each of them, one after the other; else each stage is a class. Throws InputError where stages fall apart into several
// classes, and for more classes than are simulated.
FoldedNetwork fold(const Experiment& experiment, const Schedule& schedule);

// Use of a resource by `flows` flows.
struct NetworkDemand {
  int resource = 0;  // of NetworkLoad::resources()
  Seconds seconds;
  double flows = 1;
};

// Flows that go at one rate.
struct NetworkActivity {
  std::vector<int> classes;  // of the ops that it belongs to, ascending
  std::vector<NetworkDemand> demands;
};

class NetworkLoad {
 public:
  // `schedule` is split by the classes of `network`. The schedule must live as long.
  NetworkLoad(const Experiment& experiment, const Schedule& schedule, FoldedNetwork network);

  const FoldedNetwork& network() const { return network_; }
  // The links of each class in network().links(), then the device memory of each class of ranks.
  std::vector<std::string> resources() const;

  // The work that the class of ranks really does for an op. The op in the schedule has room for the whole capacity.
  Work work(const Op& op) const;
  // An exchange has an activity for each class of flows. A native collective is a ring, in which all links of a group
  // carry equally much, so it is one activity. An exchange among some peers counts as one among all. An op in several
  // classes has the activities of all of them, whichever class is asked for.
  std::vector<NetworkActivity> activities(const Op& op);
  // The demand on device memory of a kernel that reads and writes this much.
  NetworkDemand memory(int rank_class, Bytes traffic) const;
  // Bytes that the op (in all classes) sends over all links of each class. One entry for each link class that carries
  // any.
  std::vector<LinkAmount> volumes(const Op& op);

 private:
  struct Exchange {  // a step of an all-to-all
    std::vector<FlowClass> flows;
    double blocks = 0;    // of each flow
    Subgroup relay = {};  // of an exchange that sends a token to a node once: who exchanges, in ranks
  };
  const std::vector<Exchange>& exchanges(const Op& op);
  const std::vector<RingClass>& rings(const Op& op);
  template <class Visit>
  void for_each_flow(const Op& op, Visit visit);
  template <class Visit>
  void for_each_ring(const Op& op, Visit visit);
  Bytes block_bytes(const Op& op) const;
  double share(const Op& op, const FlowClass& flow) const;
  Bytes relayed_bytes(const Op& op, Subgroup peers, const FlowClass& flow) const;
  FlowClass stage_flow(const Op& op) const;
  NetworkDemand on_link(const LinkAmount& use, Bytes bytes, double flows) const;
  bool concerns(int rank_class, const Op& op) const;

  const Schedule& s_;
  const Cluster cluster_;
  int stage_ranks_ = 0;  // 0: there is one stage
  FoldedNetwork network_;
  std::optional<RoutedRows> routed_;
  std::map<std::pair<GroupKind, int>, std::vector<Exchange>> exchanges_;  // by group and first step; -1: no steps
  std::map<std::pair<GroupKind, Collective>, std::vector<RingClass>> rings_;
};

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
// The messages between ranks that a communication op stands for, each by itself: what a folded network counts in closed
// form.
#pragma once
#include <optional>
#include <vector>

#include "models/network/routed_rows.hpp"
#include "models/question/experiment.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail {

struct RankFlow {
  int from = 0, to = 0;  // ranks
  Bytes bytes;
};

class RankFlows {
 public:
  RankFlows(const Experiment& experiment, const Schedule& schedule);

  // Flows of the op in all its groups; empty if it sends nothing. A native collective is a ring with one flow for all
  // that a rank passes on to the next, and trees are a ring that sends as much less between nodes (node_traffic.hpp);
  // all else sends what its lowered form does. All steps of an exchange count at once.
  std::vector<RankFlow> of(const Op& op) const;

 private:
  void add_messages(const Op& op, const std::vector<int>& group, std::vector<RankFlow>& flows) const;
  void add_relayed(const Op& op, const std::vector<int>& group, std::vector<RankFlow>& flows) const;
  void add_ring(const Op& op, std::vector<RankFlow>& flows) const;

  const Experiment& e_;
  const Schedule& s_;
  std::optional<RoutedRows> routed_;
};

}  // namespace dovetail

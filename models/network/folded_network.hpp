// SPDX-License-Identifier: Apache-2.0
// A described network with equal ranks and equal links counted once, so that a cluster costs as much as its classes.
// Ranks of one class see the same: the same own properties, links shared with the same classes, groups of the same
// classes. So all flows between two classes over the same tiers have the same rate at all times (an equitable
// partition).
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/network/network.hpp"
#include "models/plan/collectives/step.hpp"

namespace dovetail {

// Links of one tier and direction whose users are the same classes.
struct LinkClass {
  std::string name;  // "nic up"
  int tier = 0;      // of Topology::tiers()
  bool up = true;
  double links = 1;  // how many there are
  BytesPerSecond bandwidth;
};

// `amount` on each link of the class: flows, or bytes.
struct LinkAmount {
  int link = 0;
  double amount = 0;
};

// All flows from ranks of one class to ranks of another over the same tiers.
struct FlowClass {
  int from = 0, to = 0;
  TierMask tiers = 0;
  double of_sender = 0, of_receiver = 0;  // flows of each rank of `from`, of `to`
  std::vector<LinkAmount> uses;
};

// A ring through each of the groups whose members are of these classes. `uses`: bytes on the busiest link of the class
// for each byte that a rank passes on; `all`: on all links of the class together.
struct RingClass {
  std::vector<int> members;  // classes, ascending
  std::vector<LinkAmount> uses, all;
};

// The pattern of a step of an all-to-all in all groups of a kind: `group` holds them, the step's subgroup counts in
// group ranks.
struct ExchangePattern {
  Subgroup group;
  StepKind kind = StepKind::Exchange;  // not Copy
  Subgroup step;
  int every = 1;
};

class FoldedNetwork {
 public:
  // `colours`, by rank: what ranks are unlike in (empty: in nothing); `combs`: the sets of ranks that communicate
  // (stride and size in ranks). Ranks that lie unevenly below switches are told apart too. Nothing is counted by rank
  // where one class is enough.
  FoldedNetwork(const Cluster& cluster, std::vector<std::uint64_t> colours, std::span<const Subgroup> combs);

  int classes() const { return static_cast<int>(ranks_.size()); }
  int ranks(int rank_class) const { return ranks_[static_cast<std::size_t>(rank_class)]; }
  int representative(int rank_class) const { return representative_[static_cast<std::size_t>(rank_class)]; }
  int class_of(int rank) const { return class_of_.empty() ? 0 : class_of_[static_cast<std::size_t>(rank)]; }
  GpuSpeed speed(int rank_class) const;
  std::span<const LinkClass> links() const { return links_; }
  const Topology& topology() const { return topology_; }

  std::vector<FlowClass> flows(const ExchangePattern& pattern) const;
  // Every rank of a class sends to the rank `offset` after it, which is of one other class.
  FlowClass send(int from, int offset) const;
  // Groups that span nodes have a ring for each of their ranks on a node, so that each rank crosses to the next node
  // over its own network card; rings inside a node go from each rank to the next. `between`: the share of the ring's
  // bytes that is sent between nodes (share_of_ring).
  std::vector<RingClass> ring(Subgroup group, double between = 1) const;

 private:
  struct Peers;
  void one_class();
  void refine(const std::vector<std::uint64_t>& colours, std::span<const Subgroup> combs);
  std::vector<std::uint64_t> refined(std::vector<std::uint64_t> colours, std::span<const Subgroup> combs) const;
  void number_classes(const std::vector<std::uint64_t>& colours);
  void number_links(const std::vector<std::uint64_t>& colours);
  void add_links(std::size_t tier, double links, double speed);
  int link(std::size_t tier, int rank_class, bool up) const;
  std::vector<Peers> peers(int rank_class, const ExchangePattern& pattern) const;
  std::vector<Peers> exchange_peers(Subgroup comb) const;
  FlowClass flow_class(int from, int to, TierMask tiers, double of_sender) const;
  RingClass even_ring(Subgroup group, double between) const;

  Topology topology_;
  std::vector<GpuSpeed> speeds_;  // by rank; empty: full
  std::vector<int> ranks_, representative_;
  std::vector<int> class_of_;  // by rank; empty: all of class 0
  std::vector<LinkClass> links_;
  std::vector<std::vector<int>> link_of_;     // [tier][rank class]: its link up; down follows
  std::vector<std::vector<double>> members_;  // [link / 2][rank class]: ranks that use one link
};

}  // namespace dovetail

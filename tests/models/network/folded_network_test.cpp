// SPDX-License-Identifier: Apache-2.0
// The folded network against the explicit one, where every flow goes over its route.
#include "models/network/folded_network.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <random>

using namespace dovetail;

namespace {

using Rng = std::mt19937_64;

int below(Rng& rng, int n) {
  return static_cast<int>(rng() % static_cast<unsigned>(n));
}

int power(Rng& rng, int most) {
  return 1 << below(rng, most + 1);
}

Cluster random_cluster(Rng& rng) {
  Cluster c;
  c.nodes = power(rng, 4) * (below(rng, 3) == 0 ? 3 : 1);
  c.gpus_per_node = below(rng, 5) == 0 ? 6 : power(rng, 3);
  constexpr std::array links{NodeLink::NvSwitch, NodeLink::NvLinkPairs, NodeLink::Pcie};
  c.node_link = links[static_cast<std::size_t>(below(rng, c.gpus_per_node % 2 == 0 ? 3 : 1))];
  c.node_bandwidth = BytesPerSecond(50e9);
  do c.nics_per_node = 1 + below(rng, 8);
  while (c.gpus_per_node % c.nics_per_node != 0 && c.nics_per_node % c.gpus_per_node != 0);
  c.nic_bandwidth = BytesPerSecond(10e9);
  NetworkDescription n;
  if (c.node_link != NodeLink::NvSwitch || below(rng, 2) == 0) n.pcie_bandwidth = BytesPerSecond(20e9);
  do n.gpus_per_switch = 1 + below(rng, 4);
  while (c.gpus_per_node % n.gpus_per_switch != 0);
  for (int nodes = 1, level = 0; level < below(rng, 3); ++level) {
    nodes *= power(rng, 2) * (level == 0 ? 1 : 2);
    if (nodes < c.nodes && c.nodes % nodes != 0) break;
    n.fabric.push_back({level == 0 ? "leaf" : "pod", nodes, 1.0 + below(rng, 3)});
  }
  n.rails = !n.fabric.empty() && below(rng, 2) == 0;
  c.network = n;
  return c;
}

// A random set of ranks at equal distances that tiles the cluster.
Subgroup random_comb(Rng& rng, int gpus) {
  for (;;) {
    const Subgroup comb{1 + below(rng, gpus), 1 + below(rng, gpus)};
    if (gpus % (comb.stride * comb.size) == 0) return comb;
  }
}

// The loads that flows put on links, each over its route.
class Explicit {
 public:
  explicit Explicit(const Cluster& cluster) : network_(cluster) {}

  void add(int from, int to, double amount = 1) {
    std::vector<int> route;
    network_.route(from, to, route);
    for (int link : route) load_[link] += amount;
  }

  // By tier and direction: the busiest link, all together.
  std::map<std::string, std::pair<double, double>> loads() const {
    std::map<std::string, std::pair<double, double>> result;
    for (const auto& [link, amount] : load_) {
      const std::string& name = network_.links()[static_cast<std::size_t>(link)].name;
      const std::string kind = name.substr(0, name.find(' ')) + name.substr(name.rfind(' '));
      auto& [most, all] = result[kind];
      most = std::max(most, amount);
      all += amount;
    }
    return result;
  }

 private:
  Network network_;
  std::map<int, double> load_;
};

using NamedLoads = std::map<std::string, std::pair<double, double>>;

NamedLoads loads_of(const FoldedNetwork& folded, const std::vector<FlowClass>& flows) {
  std::map<int, double> on_link;
  for (const FlowClass& flow : flows)
    for (const LinkAmount& use : flow.uses) on_link[use.link] += use.amount;
  NamedLoads result;
  for (const auto& [i, amount] : on_link) {
    const LinkClass& link = folded.links()[static_cast<std::size_t>(i)];
    auto& [most, all] = result[link.name];
    most = std::max(most, amount);
    all += amount * link.links;
  }
  return result;
}

NamedLoads loads_of(const FoldedNetwork& folded, const std::vector<RingClass>& rings) {
  std::map<int, double> busiest;
  NamedLoads result;
  for (const RingClass& ring : rings) {
    for (const LinkAmount& use : ring.uses) busiest[use.link] += use.amount;
    for (const LinkAmount& use : ring.all)
      result[folded.links()[static_cast<std::size_t>(use.link)].name].second += use.amount;
  }
  for (const auto& [i, amount] : busiest) {
    double& most = result[folded.links()[static_cast<std::size_t>(i)].name].first;
    most = std::max(most, amount);
  }
  return result;
}

void check_equal(const NamedLoads& folded, const NamedLoads& counted) {
  REQUIRE(folded.size() == counted.size());
  for (const auto& [name, load] : counted) {
    CAPTURE(name);
    REQUIRE(folded.count(name) == 1);
    REQUIRE(folded.at(name).first == Approx(load.first).epsilon(1e-12));
    REQUIRE(folded.at(name).second == Approx(load.second).epsilon(1e-12));
  }
}

int first_of(Subgroup comb, int rank) {
  const int block = comb.stride * comb.size;
  return rank / block * block + rank % comb.stride;
}

void check_exchange(const Cluster& cluster, const FoldedNetwork& folded, Subgroup comb) {
  Explicit all(cluster);
  for (int from = 0; from < cluster.gpus(); ++from)
    for (int i = 0; i < comb.size; ++i)
      if (const int to = first_of(comb, from) + i * comb.stride; to != from) all.add(from, to);
  check_equal(loads_of(folded, folded.flows({comb, StepKind::Exchange, {1, comb.size}, 1})), all.loads());
}

// The rule as the header says it, by walking from member to member.
void check_ring(const Cluster& cluster, const FoldedNetwork& folded, Subgroup comb) {
  constexpr double between = .75;  // as of trees
  Explicit all(cluster);
  for (int rank = 0; rank < cluster.gpus(); ++rank) {
    std::map<int, std::vector<int>> on_node;
    for (int i = 0; i < comb.size; ++i) {
      const int member = first_of(comb, rank) + i * comb.stride;
      on_node[member / cluster.gpus_per_node].push_back(member);
    }
    const auto here = on_node.find(rank / cluster.gpus_per_node);
    const auto place = std::find(here->second.begin(), here->second.end(), rank) - here->second.begin();
    const auto count = static_cast<double>(here->second.size());
    if (count > 1)
      all.add(rank, here->second[static_cast<std::size_t>(place + 1) % here->second.size()],
              on_node.size() > 1 ? (count - 1) / count : 1);
    if (on_node.size() == 1) continue;
    const auto next = std::next(here) == on_node.end() ? on_node.begin() : std::next(here);
    all.add(rank, next->second[static_cast<std::size_t>(place) % next->second.size()], between / count);
  }
  if (comb.size > 1) check_equal(loads_of(folded, folded.ring(comb, between)), all.loads());
}

Cluster described(int nodes, int gpus_per_node, NodeLink link, int nics) {
  Cluster c;
  c.nodes = nodes;
  c.gpus_per_node = gpus_per_node;
  c.node_link = link;
  c.node_bandwidth = BytesPerSecond(100e9);
  c.nics_per_node = nics;
  c.nic_bandwidth = BytesPerSecond(10e9);
  c.network = NetworkDescription{};
  return c;
}

}  // namespace

TEST_CASE("8 nodes of 2 in leaves of 4: flows of an all-to-all by hand") {
  Cluster c = described(8, 2, NodeLink::NvSwitch, 1);
  c.network->fabric = {{"leaf", 4, 2}};
  const Subgroup all{1, 16};
  const FoldedNetwork folded(c, {}, {{all}});
  CHECK(folded.classes() == 1);
  CHECK(folded.ranks(0) == 16);
  const std::vector<FlowClass> flows = folded.flows({all, StepKind::Exchange, {1, 16}, 1});
  REQUIRE(flows.size() == 3);  // in the node: 1 peer; in the leaf: 3 other nodes x 2; beyond: 4 nodes x 2
  CHECK(flows[0].of_sender == 1);
  CHECK(flows[1].of_sender == 6);
  CHECK(flows[2].of_sender == 8);
  const auto on = [&](const FlowClass& flow, const std::string& name) {
    for (const LinkAmount& use : flow.uses)
      if (folded.links()[static_cast<std::size_t>(use.link)].name == name) return use.amount;
    return 0.0;
  };
  CHECK(on(flows[1], "nic up") == 12);     // two GPUs share the card
  CHECK(on(flows[2], "leaf down") == 64);  // 8 GPUs below a leaf x 8 beyond it
  CHECK(on(flows[1], "leaf down") == 0);
}

TEST_CASE("folded flows are those of the explicit network: random clusters and groups") {
  Rng rng(1);
  int folded_to_one = 0;
  for (int trial = 0; trial < 300; ++trial) {
    CAPTURE(trial);
    const Cluster c = random_cluster(rng);
    const Subgroup comb = random_comb(rng, c.gpus());
    CAPTURE(c.nodes, c.gpus_per_node, comb.stride, comb.size);
    const FoldedNetwork folded(c, {}, {{comb}});
    folded_to_one += folded.classes() == 1;
    check_exchange(c, folded, comb);
    check_ring(c, folded, comb);
  }
  CHECK(folded_to_one > 200);  // powers of two lie evenly; of the others some do not
}

TEST_CASE("the same for ranks of random colours, and for each rank a class of its own") {
  Rng rng(2);
  for (int trial = 0; trial < 200; ++trial) {
    CAPTURE(trial);
    Cluster c = random_cluster(rng);
    const Subgroup comb = random_comb(rng, c.gpus());
    const int different = trial % 4 == 0 ? c.gpus() : 1 + below(rng, 3);
    std::vector<std::uint64_t> colours(static_cast<std::size_t>(c.gpus()));
    for (int i = 0; i < different; ++i) {
      const int rank = trial % 4 == 0 ? i : below(rng, c.gpus());
      colours[static_cast<std::size_t>(rank)] = trial % 4 == 0 ? static_cast<std::uint64_t>(i) : 1;
    }
    CAPTURE(c.nodes, c.gpus_per_node, comb.stride, comb.size);
    const FoldedNetwork folded(c, colours, {{comb}});
    if (trial % 4 == 0) CHECK(folded.classes() == c.gpus());
    int ranks = 0;
    for (int k = 0; k < folded.classes(); ++k) ranks += folded.ranks(k);
    CHECK(ranks == c.gpus());
    check_exchange(c, folded, comb);
    check_ring(c, folded, comb);
  }
}

TEST_CASE("the partition is equitable: every rank of a class has as many flows of each kind") {
  Rng rng(3);
  for (int trial = 0; trial < 100; ++trial) {
    Cluster c = random_cluster(rng);
    const Subgroup comb = random_comb(rng, c.gpus());
    std::vector<std::uint64_t> colours(static_cast<std::size_t>(c.gpus()));
    colours[static_cast<std::size_t>(below(rng, c.gpus()))] = 1;
    const FoldedNetwork folded(c, colours, {{comb}});
    const Topology topology(c);
    std::map<int, std::map<std::pair<int, TierMask>, int>> of_class;
    for (int rank = 0; rank < c.gpus(); ++rank) {
      std::map<std::pair<int, TierMask>, int> mine;
      for (int i = 0; i < comb.size; ++i)
        if (const int peer = first_of(comb, rank) + i * comb.stride; peer != rank)
          ++mine[{folded.class_of(peer), topology.between(rank, peer)}];
      const auto [at, fresh] = of_class.emplace(folded.class_of(rank), mine);
      if (!fresh) REQUIRE(at->second == mine);
    }
  }
}

TEST_CASE("leaders: gather, exchange and scatter load the links that the explicit flows do") {
  Cluster c = described(4, 4, NodeLink::Pcie, 2);
  c.network->gpus_per_switch = 2;
  const Subgroup all{1, 16};
  std::vector<std::uint64_t> colours(16);
  for (std::size_t i = 0; i < 16; i += 4) colours[i] = 1;
  const FoldedNetwork folded(c, colours, {{all, {1, 4}, {4, 4}}});
  CHECK(folded.classes() == 3);  // leaders, those below the same switch, the other two of a node
  Explicit gather(c), exchange(c), scatter(c);
  for (int rank = 0; rank < 16; ++rank)
    if (rank % 4 != 0) {
      gather.add(rank, rank / 4 * 4);
      scatter.add(rank / 4 * 4, rank);
    }
  for (int from = 0; from < 16; from += 4)
    for (int to = 0; to < 16; to += 4)
      if (from != to) exchange.add(from, to);
  check_equal(loads_of(folded, folded.flows({all, StepKind::Gather, {1, 4}, 1})), gather.loads());
  check_equal(loads_of(folded, folded.flows({all, StepKind::Exchange, {4, 4}, 4})), exchange.loads());
  check_equal(loads_of(folded, folded.flows({all, StepKind::Scatter, {1, 4}, 1})), scatter.loads());
}

TEST_CASE("one slow GPU among 1,024 parts few classes") {
  Cluster c = described(128, 8, NodeLink::NvSwitch, 8);
  c.network->fabric = {{"leaf", 32, 1}};
  c.network->slow = {{{}, {77}, .8, 1, 1}};
  const FoldedNetwork folded(c, {}, {{{1, 1024}}});
  CHECK(folded.classes() == 4);  // the GPU, its node, its leaf, the rest
  CHECK(folded.ranks(folded.class_of(77)) == 1);
  CHECK(folded.ranks(folded.class_of(72)) == 7);
  CHECK(folded.ranks(folded.class_of(64)) == 248);
  CHECK(folded.speed(folded.class_of(77)).compute == .8);
}

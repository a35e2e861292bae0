// SPDX-License-Identifier: Apache-2.0
// Moves labelled blocks by the steps of every all-to-all algorithm, for every group of up to 64 ranks and every way to
// cut it into levels, and counts what crosses which link.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <numeric>
#include <optional>
#include <string>

#include "bench/examples/custom_moe/nodes_first.hpp"
#include "models/base/names.hpp"
#include "models/plan/collectives/all_to_all.hpp"
#include "models/plan/collectives/delivery.hpp"

using namespace dovetail;

namespace {

using Steps = std::vector<CollectiveStep>;

// All lists of factors above 1 whose product is n, in every order.
std::vector<std::vector<int>> factorisations(int n) {
  if (n == 1) return {{}};
  std::vector<std::vector<int>> all;
  for (int first = 2; first <= n; ++first) {
    if (n % first != 0) continue;
    for (std::vector<int> rest : factorisations(n / first)) {
      rest.insert(rest.begin(), first);
      all.push_back(rest);
    }
  }
  return all;
}

struct Counted {
  Traffic busiest;
  std::int64_t left_nodes = 0;  // blocks that crossed nodes, all ranks
};

LinkTraffic larger(const LinkTraffic& a, const LinkTraffic& b) {
  return {std::max(a.peers, b.peers), std::max(a.messages, b.messages), std::max(a.blocks, b.blocks)};
}

LinkTraffic count(const std::vector<Move>& moves, const std::function<bool(const Move&)>& chosen, int Move::*peer) {
  LinkTraffic t;
  std::vector<int> peers;
  for (const Move& m : moves) {
    if (!chosen(m)) continue;
    ++t.messages;
    t.blocks += m.blocks;
    peers.push_back(m.*peer);
  }
  std::ranges::sort(peers);
  t.peers = std::ranges::unique(peers).begin() - peers.begin();
  return t;
}

Counted counted(const CollectiveStep& step, int ranks, int ranks_per_node) {
  Counted c;
  const auto crosses = [&](const Move& m) { return m.source / ranks_per_node != m.target / ranks_per_node; };
  const auto stays = [&](const Move& m) { return m.source != m.target && !crosses(m); };
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<Move> out = moves_from(step, rank), in = moves_to(step, rank);
    const LinkTraffic sent = count(out, crosses, &Move::target);
    c.busiest.inter = larger(c.busiest.inter, larger(sent, count(in, crosses, &Move::source)));
    c.busiest.intra =
        larger(c.busiest.intra, larger(count(out, stays, &Move::target), count(in, stays, &Move::source)));
    c.left_nodes += sent.blocks;
    std::int64_t copied = 0;
    for (const Move& m : out) copied += step.kind == StepKind::Copy ? m.blocks : 0;
    c.busiest.copied = std::max(c.busiest.copied, copied);
  }
  return c;
}

// Every number of consecutive ranks on a node that ends a level.
std::vector<int> node_sizes(const std::vector<int>& levels) {
  std::vector<int> sizes{1};
  for (int size : levels) sizes.push_back(sizes.back() * size);
  return sizes;
}

int product(const std::vector<int>& levels) {
  return std::accumulate(levels.begin(), levels.end(), 1, std::multiplies<>());
}

}  // namespace

TEST_CASE("every block of every all-to-all algorithm arrives, once and in its place") {
  int cases = 0;
  for (int ranks = 1; ranks <= 64; ++ranks)
    for (const std::vector<int>& levels : factorisations(ranks))
      for (const AllToAllAlgorithm& algorithm : all_to_all_algorithms) {
        const std::string error = delivery_error(all_to_all_steps(algorithm.name, levels), ranks);
        if (!error.empty()) FAIL(name_in(all_to_all_names, algorithm.name) << " of " << ranks << ": " << error);
        ++cases;
      }
  CHECK(cases > 4 * 64);
}

TEST_CASE("every block of the example's all-to-all arrives, once and in its place") {
  for (int ranks = 2; ranks <= 64; ++ranks)
    for (const std::vector<int>& levels : factorisations(ranks))
      CHECK(delivery_error(NodesFirst().steps(levels), ranks).empty());
}

TEST_CASE("a step's traffic is that of its moves, and no algorithm beats the bandwidth bound") {
  for (int ranks = 1; ranks <= 64; ++ranks)
    for (const std::vector<int>& levels : factorisations(ranks))
      for (const AllToAllAlgorithm& algorithm : all_to_all_algorithms)
        for (int local : node_sizes(levels)) {
          std::int64_t sent = 0, left_nodes = 0;
          bool as_stated = true;
          for (const CollectiveStep& step : all_to_all_steps(algorithm.name, levels)) {
            const Counted c = counted(step, ranks, local);
            const Traffic stated = traffic(step, local);
            as_stated = as_stated && c.busiest.intra == stated.intra && c.busiest.inter == stated.inter &&
                        c.busiest.copied == stated.copied;
            sent += stated.inter.blocks;
            left_nodes += c.left_nodes;
          }
          // W - local of each rank's W blocks must leave the node; through further levels some leave twice.
          const std::int64_t must_leave = ranks - local;
          const bool once = algorithm.name == AllToAll::Linear || (levels.size() == 2 && local == levels[0]);
          if (!as_stated || left_nodes < ranks * must_leave || sent < must_leave ||
              (once && left_nodes != ranks * must_leave))
            FAIL(name_in(all_to_all_names, algorithm.name) << " of " << ranks << " ranks, " << local << " a node");
        }
}

TEST_CASE("broken algorithms are caught") {
  const std::vector<int> levels{3, 5};
  const Steps good = two_dimensional_steps(levels);
  REQUIRE(good.size() == 4);
  CHECK(delivery_error(good, 15).empty());
  const auto broken = [&](auto change) {
    Steps steps = good;
    change(steps);
    return delivery_error(steps, 15);
  };
  CHECK(broken([](Steps& s) { s.erase(s.begin() + 2); }) == "a block in another's place");  // no second copy
  CHECK(broken([](Steps& s) { std::swap(s[0].parts, s[0].middle); }) == "a block in another's place");
  CHECK(broken([](Steps& s) { s.pop_back(); }) == "a block in another's place");
  CHECK(broken([](Steps& s) { s[1].run = 4; }) == "a block outside of a buffer");
  CHECK(broken([](Steps& s) { s[3].subgroup.stride = 1; }) == "a block in another's place");
}

TEST_CASE("steps of a 2DH all-to-all of 8 x 64 ranks, as in Tutel's algorithm 3") {
  const Steps steps = all_to_all_steps(AllToAll::TwoDimensional, std::vector{8, 64});
  REQUIRE(steps.size() == 4);
  CHECK(traffic(steps[0], 8).copied == 512);
  CHECK(traffic(steps[1], 8).intra == LinkTraffic{7, 7, 7 * 64});  // messages of nodes * S/W
  CHECK(traffic(steps[1], 8).inter == LinkTraffic{});
  CHECK(traffic(steps[2], 8).copied == 512);
  CHECK(traffic(steps[3], 8).inter == LinkTraffic{63, 63, 63 * 8});  // messages of gpus * S/W
  // Without copies the exchange inside the node sends 64 single blocks to each of 7 peers.
  const Steps naive = all_to_all_steps(AllToAll::NaiveLocal, std::vector{8, 64});
  REQUIRE(naive.size() == 2);
  CHECK(traffic(naive[0], 8).intra == LinkTraffic{7, 7 * 64, 7 * 64});
  CHECK(naive[1] == steps[3]);
  // A leader receives 7 buffers of 512 blocks and sends 64 blocks' worth of 8 x 8 pairs to each other leader.
  const Steps one = all_to_all_steps(AllToAll::Hierarchical1d, std::vector{8, 64});
  REQUIRE(one.size() == 5);
  CHECK(traffic(one[0], 8).intra == LinkTraffic{7, 7, 7 * 512});
  CHECK(traffic(one[2], 8).inter == LinkTraffic{63, 63, 63 * 64});
  CHECK(one[0].target_blocks() == 8 * 512);
}

TEST_CASE("a group in one node or with one rank per node takes one exchange") {
  for (const AllToAllAlgorithm& algorithm : all_to_all_algorithms)
    for (const std::vector<int>& levels : {std::vector{1, 6}, {6, 1}, {6}, {1, 1}, {}})
      CHECK(all_to_all_steps(algorithm.name, levels) == Steps{exchange_step({1, product(levels)}, 1, 1)});
}

TEST_CASE("how many members of a group are on a node") {
  Cluster cluster;
  cluster.nodes = 3;
  cluster.gpus_per_node = 4;
  Parallelism p;
  p.ep = 12;
  CHECK(ranks_per_node(p, GroupKind::Ep, cluster) == 4);
  p = {3, 4, 3, 4, 1, 1};  // dp, mp, ep, esp: each expert over the 4 GPUs of a node
  CHECK(ranks_per_node(p, GroupKind::Ep, cluster) == 1);
  CHECK(ranks_per_node(p, GroupKind::Esp, cluster) == 4);
  p = {3, 4, 6, 2, 1, 1};  // ranks 0, 2 | 4, 6 | 8, 10
  CHECK(ranks_per_node(p, GroupKind::Ep, cluster) == 2);
  p = {3, 4, 6, 1, 1, 2};  // ranks 0 1 2 3 | 4 5
  CHECK(ranks_per_node(p, GroupKind::Ep, cluster) == 0);
  CHECK(members_per_node({2, 3}, 2) == 1);
  CHECK(members_per_node({1, 3}, 2) == 0);  // parts of 3 cut nodes of 2
}

// SPDX-License-Identifier: Apache-2.0
// Groups on nodes of 8 GPUs with a card of 50 GB/s each; costs between nodes as of one member a node and many nodes,
// where every byte of n passes a card: 22.2222 ps/B are 90 % of it.
#include "models/price/collective_price.hpp"

#include <catch2/catch.hpp>

#include "models/base/errors.hpp"
#include "models/files/read_parts.hpp"
#include "models/network/node_traffic.hpp"
#include "models/price/step_cost.hpp"

using namespace dovetail;

namespace {

constexpr double pico = 1e-12;

CollectiveCost entry(Collective collective, LinkKind link, double beta, int gpus = 0, int members = 0) {
  return {collective, link, gpus, Seconds(4e-5), SecondsPerByte(beta * pico), {Origin::Measured, "a test"}, members};
}

Calibration assumed_costs() {
  Calibration c;
  c.name = "test";
  c.collectives = {entry(Collective::AllToAll, LinkKind::Inter, 22.2222, 0, 1),
                   entry(Collective::AllGather, LinkKind::Inter, 22.2222, 0, 1),
                   entry(Collective::AllReduce, LinkKind::Inter, 44.4444, 0, 1),
                   entry(Collective::AllToAll, LinkKind::Intra, 3.4188),
                   entry(Collective::AllGather, LinkKind::Intra, 2.77778),
                   entry(Collective::AllReduce, LinkKind::Intra, 5.55556)};
  return c;
}

GroupPlace on_nodes(int nodes, int members, double card = 50e9) {
  return {{nodes * members, nodes}, members, 8, BytesPerSecond(card)};
}

double beta_ps(Collective collective, const GroupPlace& where, const Calibration& c = assumed_costs()) {
  return find_cost(c, collective, where).beta.value() / pico;
}

}  // namespace

TEST_CASE("bytes through a GPU's cards follow from nodes and members on each") {
  constexpr double nvls = 0;
  const auto bytes = [](Collective collective, double nodes, double members, double least_of_trees = 2) {
    return card_bytes(collective, nodes, members, least_of_trees);
  };
  CHECK(bytes(Collective::AllToAll, 2, 8) == Approx(8 / 16.0));  // (p - m) / p
  CHECK(bytes(Collective::AllToAll, 8, 1) == Approx(7 / 8.0));
  CHECK(bytes(Collective::AllGather, 4, 8) == Approx(31 / 32.0 / 8));  // (p - 1) / p / m
  CHECK(bytes(Collective::ReduceScatter, 4, 1) == Approx(3 / 4.0));
  CHECK(bytes(Collective::AllReduce, 4, 2) == Approx(7 / 8.0));  // twice that
  CHECK(bytes(Collective::AllReduce, 2, 8) == Approx(2 * 15 / 16.0 / 8));
  CHECK(bytes(Collective::Broadcast, 4, 2) == Approx(1 / 2.0));
  CHECK(bytes(Collective::Reduce, 4, 8) == Approx(1 / 8.0));
  CHECK(bytes(Collective::Send, 4, 8) == 1);
  // Trees: N / 2 of two and three nodes, then 2, which a ring never sends.
  CHECK(bytes(Collective::AllReduce, 2, 8, nvls) == Approx(1 / 8.0));
  CHECK(bytes(Collective::AllReduce, 3, 4, nvls) == Approx(1.5 / 4));
  CHECK(bytes(Collective::AllReduce, 4, 8, nvls) == Approx(2 * 31 / 32.0 / 8));
  CHECK(bytes(Collective::AllReduce, 3, 1, nvls) == Approx(2 * 2 / 3.0));
  CHECK(bytes(Collective::AllGather, 2, 8, nvls) == Approx(15 / 16.0 / 8));
  CHECK(bytes(Collective::AllReduce, 2, 8, 1.2) == Approx(1.2 / 8));
}

TEST_CASE("no algorithm sends less than any could, and the ones that are taken send the least") {
  for (const Collective collective :
       {Collective::AllGather, Collective::ReduceScatter, Collective::AllReduce, Collective::Broadcast})
    for (const double nodes : {2, 3, 4, 5, 64})
      for (const double members : {1, 2, 8})
        for (const double least_of_trees : {0., 1.1, 2.}) {
          const double bytes = card_bytes(collective, nodes, members, least_of_trees);
          CHECK(bytes >= least_card_bytes(collective, nodes, members) * (1 - 1e-12));
          CHECK(bytes <= ring_traffic(collective, nodes * members) / members);
        }
}

TEST_CASE("trees are for switches that add up, and for cards that a channel outruns") {
  Cluster cluster;
  const auto algorithm = [&](double card, bool nvls) {
    cluster.nic_bandwidth = BytesPerSecond(card);
    cluster.nvls = nvls;
    return node_traffic(Collective::AllReduce, 2, 8, least_of_trees(cluster)).algorithm;
  };
  CHECK(algorithm(50e9, true) == Algorithm::Trees);
  CHECK(algorithm(25e9, false) == Algorithm::Ring);     // two nodes of A100 with 200 Gb/s cards: 93 GB/s of four
  CHECK(algorithm(12.5e9, false) == Algorithm::Trees);  // with 100 Gb/s cards trees are faster
}

TEST_CASE("an all-to-all over more nodes sends more through the cards") {
  CHECK(beta_ps(Collective::AllToAll, on_nodes(2, 8)) == Approx(22.2222 / 2));
  CHECK(beta_ps(Collective::AllToAll, on_nodes(4, 8)) == Approx(22.2222 * 3 / 4));
  CHECK(beta_ps(Collective::AllToAll, on_nodes(8, 8)) == Approx(22.2222 * 7 / 8));
  CHECK(beta_ps(Collective::AllToAll, on_nodes(8, 1)) == Approx(22.2222 * 7 / 8));
  CHECK(find_cost(assumed_costs(), Collective::AllToAll, on_nodes(2, 8)).alpha.value() == Approx(4e-5));
  CHECK(beta_ps(Collective::AllToAll, on_nodes(1, 8)) == Approx(3.4188));
}

TEST_CASE("members on a node share what comes over the network, until the links in the node take longer") {
  // 80 GPUs: 44.4444 x (2 x 79/80 / 8) / 2 = 5.49 ps/B, and 5.55556 inside: 180 GB/s; logs of H100s say 71 to 175.
  CHECK(beta_ps(Collective::AllReduce, on_nodes(10, 8)) == Approx(5.55556));
  CHECK(beta_ps(Collective::AllReduce, on_nodes(10, 4)) == Approx(44.4444 * 39 / 40 / 4));
  CHECK(beta_ps(Collective::AllReduce, on_nodes(10, 1)) == Approx(44.4444 * 9 / 10));
  CHECK(beta_ps(Collective::AllGather, on_nodes(10, 2)) == Approx(22.2222 * 19 / 20 / 2));
  // Inside, an all-to-all has 1/2 of its bytes of two nodes: where that takes longer it is the price.
  Calibration slow = assumed_costs();
  slow.collectives[3].beta = SecondsPerByte(100 * pico);
  CHECK(beta_ps(Collective::AllToAll, on_nodes(2, 8), slow) == Approx(50));
  CHECK(beta_ps(Collective::AllToAll, on_nodes(2, 1), slow) == Approx(22.2222 / 2));
}

TEST_CASE("a cost of eight cards is not that of a group with one") {
  // Measured by 16 ranks, 8 on each node: 183 GB/s of an all-gather, 15/16/8 of it through each card (21.4 GB/s).
  Calibration c = assumed_costs();
  c.collectives = {entry(Collective::AllGather, LinkKind::Inter, 1e3 / 183, 16, 8)};
  CHECK(beta_ps(Collective::AllGather, on_nodes(2, 8), c) == Approx(1e3 / 183));
  CHECK(beta_ps(Collective::AllGather, on_nodes(2, 1), c) == Approx(1e3 / 183 * (1 / 2.0) / (15 / 128.0)));
  CHECK(beta_ps(Collective::AllGather, on_nodes(4, 1), c) == Approx(1e3 / 183 * (3 / 4.0) / (15 / 128.0)));
  CHECK(1e3 / beta_ps(Collective::AllGather, on_nodes(2, 1), c) < 50);
  CHECK(find_cost(c, Collective::AllGather, on_nodes(2, 1)).provenance.source ==
        "a test, beta x 4.267: 0.5 bytes through the cards for each at 1 on 2 nodes");
}

TEST_CASE("a sum over two nodes that share four cards is as fast as a ring over them") {
  // 8 GPUs of each node share 100 GB/s, of which the entry reaches 90 %: 90 GB/s of bus bandwidth; 93 were measured.
  Calibration c = assumed_costs();
  c.collectives[2].beta = SecondsPerByte(2 / 11.25e9);
  for (const int nodes : {2, 4, 16}) {
    const double ring = 2 * (1 - 1.0 / (8 * nodes));
    CHECK(ring / find_cost(c, Collective::AllReduce, on_nodes(nodes, 8, 12.5e9)).beta.value() == Approx(90e9));
  }
  GroupPlace nvls = on_nodes(2, 8, 12.5e9);
  nvls.least_of_trees = 0;
  CHECK(find_cost(c, Collective::AllReduce, nvls).beta.value() == Approx(1 / 90e9));
}

TEST_CASE("a cost keeps its number at the place where it was measured, down to what any algorithm could send") {
  Calibration c;
  c.collectives = {entry(Collective::AllReduce, LinkKind::Inter, 3.2, 16, 8)};  // a ring on these cards takes 4.69
  CHECK(beta_ps(Collective::AllReduce, on_nodes(2, 8), c) == Approx(3.2));
  CHECK(find_cost(c, Collective::AllReduce, on_nodes(4, 8)).held_by_cards);
  c.collectives.front().beta = SecondsPerByte(2 * pico);
  CHECK(beta_ps(Collective::AllReduce, on_nodes(2, 8), c) == Approx(2.5));
}

TEST_CASE("of several measured places the one with the most similar members counts, interpolated by nodes") {
  Calibration c;
  c.collectives = {entry(Collective::AllReduce, LinkKind::Inter, 8, 16, 8),
                   entry(Collective::AllReduce, LinkKind::Inter, 16, 64, 8),
                   entry(Collective::AllReduce, LinkKind::Inter, 50, 2, 1)};
  CHECK(beta_ps(Collective::AllReduce, on_nodes(2, 8), c) == Approx(8));
  CHECK(beta_ps(Collective::AllReduce, on_nodes(8, 8), c) == Approx(16));
  CHECK(beta_ps(Collective::AllReduce, on_nodes(2, 1), c) == Approx(50));
  // 5 nodes are midway; both ends are brought to them first, by a ring of 40 in place of 16 and of 64.
  CHECK(beta_ps(Collective::AllReduce, on_nodes(5, 8), c) == Approx(39 / 40. * (8 / (15 / 16.) + 16 / (63 / 64.)) / 2));
}

TEST_CASE("what stands in for another collective is brought from that one's place") {
  CHECK(beta_ps(Collective::Send, on_nodes(4, 1)) == Approx(22.2222));       // 1 byte in both
  CHECK(beta_ps(Collective::Broadcast, on_nodes(4, 1)) == Approx(22.2222));  // of an all-gather over many nodes
  CHECK(beta_ps(Collective::Broadcast, on_nodes(4, 4)) == Approx(22.2222 / 4));
  Calibration c;
  c.collectives = {entry(Collective::AllToAll, LinkKind::Inter, 12, 16, 8)};
  CHECK(beta_ps(Collective::Send, on_nodes(2, 1), c) == Approx(24));  // half of it went through the cards
}

TEST_CASE("no price is below what the cards carry") {
  // At 25 GB/s a GPU, 7/8 of the bytes: 35 ps/B, and 20 ps/B at 43.75.
  CHECK(beta_ps(Collective::AllToAll, on_nodes(8, 8, 25e9)) == Approx(35));
  CHECK(find_cost(assumed_costs(), Collective::AllToAll, on_nodes(8, 8, 25e9)).held_by_cards);
  CHECK_FALSE(find_cost(assumed_costs(), Collective::AllToAll, on_nodes(8, 8)).held_by_cards);
  // One without a place holds wherever a group lies, but for that.
  Calibration c;
  c.collectives = {entry(Collective::AllToAll, LinkKind::Inter, 10)};
  CHECK(beta_ps(Collective::AllToAll, on_nodes(8, 8, 100e9), c) == Approx(10));
  CHECK(beta_ps(Collective::AllToAll, on_nodes(8, 8), c) == Approx(17.5));
  CHECK(beta_ps(Collective::AllToAll, on_nodes(8, 8, 0), c) == Approx(10));  // cards that nobody described
}

TEST_CASE("steps of an all-to-all are priced where their subgroups lie") {
  Calibration c = assumed_costs();
  const auto busy = [&](const CollectiveStep& step, InterferenceClass kind) {
    ExchangeWork work;
    work.message = Bytes(1e9);
    return step_cost(c, {&step, 1}, work, on_nodes(4, 8))[static_cast<std::size_t>(kind)].busy.value();
  };
  CHECK(busy(exchange_step({1, 8}, 1, 4), InterferenceClass::Intra) == Approx(1e9 * 3.4188 * pico));
  CHECK(busy(exchange_step({8, 4}, 1, 8), InterferenceClass::Inter) == Approx(1e9 * 22.2222 * pico * 3 / 4));
  CHECK(busy(exchange_step({1, 32}, 1, 1), InterferenceClass::Inter) == Approx(1e9 * 22.2222 * pico * 3 / 4));
  // By messages too, no card carries more than it can: 24 of 32 blocks at 50 GB/s.
  c.messages = {{LinkKind::Inter, Protocol::Simple, Seconds(0), 0, BytesPerSecond(80e9), {}, {}},
                {LinkKind::Intra, Protocol::Simple, Seconds(0), 0, BytesPerSecond(300e9), {}, {}}};
  CHECK(busy(exchange_step({1, 32}, 1, 1), InterferenceClass::Inter) == Approx(.75e9 / 50e9));
}

TEST_CASE("a file says where a cost was measured, or why that makes no sense") {
  const auto costs = [](const std::string& collectives) {
    const JsonFile file = JsonFile::parse(R"({"name": "c", "collectives": [)" + collectives + R"(],
      "gemms": [{"dtype": "fp32", "alpha": "1 us", "beta": "1 fs/flop", "provenance": {"origin": "assumed", "source": "a"}}],
      "memory": {"alpha": "1 us", "beta": "1 ps/B", "provenance": {"origin": "assumed", "source": "a"}}})",
                                          "c.json");
    return read_calibration(JsonReader(file)).collectives;
  };
  const auto one = [](const std::string& link, const std::string& place) {
    return R"({"collective": "all_reduce", "link": ")" + link + R"(", )" + place +
           R"("alpha": "1 us", "beta": "1 ps/B", "provenance": {"origin": "assumed", "source": "a"}})";
  };
  CHECK(costs(one("inter", R"("gpus": 16, "members_per_node": 8, )")).front().members_per_node == 8);
  CHECK(costs(one("inter", "")).front().members_per_node == 0);
  CHECK(costs(one("inter", R"("gpus": 16, "members_per_node": 8, )") + "," +
              one("inter", R"("gpus": 16, "members_per_node": 1, )"))
            .size() == 2);
  CHECK_THROWS_WITH(costs(one("intra", R"("members_per_node": 8, )")), Catch::Contains("on inter links alone"));
  CHECK_THROWS_WITH(costs(one("inter", R"("gpus": 12, "members_per_node": 8, )")), Catch::Contains("to be a multiple"));
  CHECK_THROWS_WITH(costs(one("inter", R"("gpus": 8, "members_per_node": 8, )")), Catch::Contains("several nodes"));
  CHECK_THROWS_WITH(
      costs(one("inter", R"("gpus": 16, "members_per_node": 8, )") + "," + one("inter", R"("gpus": 32, )")),
      Catch::Contains("with and without \"members_per_node\""));
}

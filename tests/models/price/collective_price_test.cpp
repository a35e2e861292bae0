// Groups on nodes of 8 GPUs with a card of 50 GB/s each; costs between nodes as of one member a node and many nodes,
// where every byte of n passes a card: 22.2222 ps/B are 90 % of it.
#include "models/price/collective_price.hpp"

#include <catch2/catch.hpp>

#include "models/base/errors.hpp"
#include "models/files/read_parts.hpp"
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
  CHECK(card_bytes(Collective::AllToAll, 2, 8) == Approx(8 / 16.0));  // (p - m) / p
  CHECK(card_bytes(Collective::AllToAll, 8, 1) == Approx(7 / 8.0));
  CHECK(card_bytes(Collective::AllGather, 4, 8) == Approx(3 / 32.0));  // (N - 1) / N / m
  CHECK(card_bytes(Collective::ReduceScatter, 4, 1) == Approx(3 / 4.0));
  CHECK(card_bytes(Collective::AllReduce, 4, 2) == Approx(3 / 4.0));  // twice that
  CHECK(card_bytes(Collective::Broadcast, 4, 2) == Approx(1 / 2.0));
  CHECK(card_bytes(Collective::Reduce, 4, 8) == Approx(1 / 8.0));
  CHECK(card_bytes(Collective::Send, 4, 8) == 1);
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
  // 80 GPUs: 44.4444 x (2 x 9/10 / 8) / 2 = 5 ps/B, and 5.55556 inside: 180 GB/s; logs of H100s say 71 to 175.
  CHECK(beta_ps(Collective::AllReduce, on_nodes(10, 8)) == Approx(5.55556));
  CHECK(beta_ps(Collective::AllReduce, on_nodes(10, 4)) == Approx(44.4444 * 9 / 10 / 4));
  CHECK(beta_ps(Collective::AllReduce, on_nodes(10, 1)) == Approx(44.4444 * 9 / 10));
  CHECK(beta_ps(Collective::AllGather, on_nodes(10, 2)) == Approx(22.2222 * 9 / 10 / 2));
  // Inside, an all-to-all has 1/2 of its bytes of two nodes: where that takes longer it is the price.
  Calibration slow = assumed_costs();
  slow.collectives[3].beta = SecondsPerByte(100 * pico);
  CHECK(beta_ps(Collective::AllToAll, on_nodes(2, 8), slow) == Approx(50));
  CHECK(beta_ps(Collective::AllToAll, on_nodes(2, 1), slow) == Approx(22.2222 / 2));
}

TEST_CASE("a cost of eight cards is not that of a group with one") {
  // Measured by 16 ranks, 8 on each node: 183 GB/s of an all-gather, 1/16 of it through each card (11.4 GB/s).
  Calibration c = assumed_costs();
  c.collectives = {entry(Collective::AllGather, LinkKind::Inter, 1e3 / 183, 16, 8)};
  CHECK(beta_ps(Collective::AllGather, on_nodes(2, 8), c) == Approx(1e3 / 183));
  CHECK(beta_ps(Collective::AllGather, on_nodes(2, 1), c) == Approx(8e3 / 183));
  CHECK(beta_ps(Collective::AllGather, on_nodes(4, 1), c) == Approx(8e3 / 183 * (3 / 4.0) / (1 / 2.0)));
  CHECK(1e3 / beta_ps(Collective::AllGather, on_nodes(2, 1), c) < 50);
  CHECK(find_cost(c, Collective::AllGather, on_nodes(2, 1)).provenance.source ==
        "a test, beta x 8: 0.5 bytes through the cards for each at 1 on 2 nodes");
}

TEST_CASE("of several measured places the one with the most similar members counts, interpolated by nodes") {
  Calibration c;
  c.collectives = {entry(Collective::AllReduce, LinkKind::Inter, 8, 16, 8),
                   entry(Collective::AllReduce, LinkKind::Inter, 16, 64, 8),
                   entry(Collective::AllReduce, LinkKind::Inter, 50, 2, 1)};
  CHECK(beta_ps(Collective::AllReduce, on_nodes(2, 8), c) == Approx(8));
  CHECK(beta_ps(Collective::AllReduce, on_nodes(8, 8), c) == Approx(16));
  CHECK(beta_ps(Collective::AllReduce, on_nodes(2, 1), c) == Approx(50));
  // 5 nodes are midway; both ends are brought to them first: 8 x (4/5) / (1/2) = 12.8, 16 x (4/5) / (7/8) = 14.63.
  CHECK(beta_ps(Collective::AllReduce, on_nodes(5, 8), c) == Approx((12.8 + 16 * .8 / .875) / 2));
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

// SPDX-License-Identifier: Apache-2.0
// Worked examples of ops that share resources, with the arithmetic: simulated, and predicted alike.
#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "models/price/contention_shares.hpp"
#include "models/time/analytic_backend.hpp"
#include "sim/simgrid_backend.hpp"
#include "tests/support/hand_made.hpp"

using namespace dovetail;
using namespace dovetail::test;

namespace {

Approx exactly(double expected) {
  return Approx(expected).epsilon(1e-12);
}

// The finish of each op, simulated; predicted alike.
std::vector<double> finish_of(const HandMade& made, double rounding = 1e-10) {
  std::vector<double> times;
  const Timeline simulated = dovetail::sim::SimGridBackend().run(made.priced());
  const Timeline predicted = AnalyticBackend().run(made.priced());
  for (const OpId i : simulated.ops.ids()) {
    times.push_back(simulated.ops[i].finish.value());
    CHECK(predicted.ops[i].finish.value() == Approx(times.back()).epsilon(rounding));
  }
  return times;
}

// A row of streams on which each op added starts at time 0, unless it depends on others.
class Together {
 public:
  explicit Together(int resources) : made_(8, resources) {}
  Together& op(std::initializer_list<Demand> demands, double fixed = 0) {
    made_.add(StreamId(next_++), {}, fixed, demands);
    return *this;
  }
  std::vector<double> finish() const { return finish_of(made_, 1e-12); }

 private:
  HandMade made_;
  int next_ = 0;
};

// Demands of a pair that keeps speeds `eta` and `mu` while it runs together, as price() makes them: each gets half of
// a contention resource, so demands half of its time, divided by the speed it keeps.
constexpr int compute = 0, inter = 1, intra = 2, compute_inter = 3, compute_intra = 4, inter_intra = 5;
double half(double seconds, double speed) {
  return seconds * 0.5 / speed;
}

// A demand of one kind of an entry, for so many seconds at full speed.
Demand share(const Interference& entry, std::size_t kind, int resource, double seconds) {
  const ContentionShare share = contention_shares(entry)[kind];
  return use(resource, seconds * share.demand, share.flows);
}

}  // namespace

TEST_CASE("Two ops on one resource get half of it each") {
  // Both at 1/2 until 2, when the first has its 1 s; the second then has 1 of 2 left, alone.
  const auto finish = Together(1).op({use(0, 1)}).op({use(0, 2)}).finish();
  CHECK(finish[0] == exactly(2));
  CHECK(finish[1] == exactly(3));
}

TEST_CASE("What a slower op leaves of a resource goes to the others") {
  // The first is held to 1/4 of its speed by its own resource and takes 1/4 of the shared one; the second gets 3/4.
  const auto finish = Together(2).op({use(0, 1), use(1, 4)}).op({use(0, 1)}).finish();
  CHECK(finish[0] == exactly(4));
  CHECK(finish[1] == exactly(1 / 0.75));
}

TEST_CASE("Fixed time uses no resource") {
  // Until 1 the second has the resource alone and does 1 of 2. From then on both have 1 left, at half speed.
  const auto finish = Together(1).op({use(0, 1)}, 1).op({use(0, 2)}).finish();
  CHECK(finish[0] == exactly(3));
  CHECK(finish[1] == exactly(3));
}

TEST_CASE("Sharing is between flows, not ops") {
  SECTION("three flows beside one get 3/4") {
    // 3 s at 3/4 and 1 s at 1/4: both end at 4.
    const auto finish = Together(1).op({use(0, 3, 3)}).op({use(0, 1)}).finish();
    CHECK(finish[0] == exactly(4));
    CHECK(finish[1] == exactly(4));
  }
  SECTION("the rest is for the one that is left") {
    // The single flow: 0.5 s at 1/4 ends at 2. The others did 1.5 s of 3 by then, and need another 1.5 s.
    const auto finish = Together(1).op({use(0, 3, 3)}).op({use(0, 0.5)}).finish();
    CHECK(finish[0] == exactly(3.5));
    CHECK(finish[1] == exactly(2));
  }
  SECTION("one flow each gives halves") {
    // 0.5 s at 1/2 ends at 1; the other did 0.5 s of 3.
    const auto finish = Together(1).op({use(0, 3)}).op({use(0, 0.5)}).finish();
    CHECK(finish[0] == exactly(3.5));
    CHECK(finish[1] == exactly(1));
  }
  SECTION("an op alone takes its seconds whatever its flows") {
    CHECK(Together(1).op({use(0, 3, 7)}).finish()[0] == exactly(3));
    CHECK(Together(1).op({use(0, 3, 511)}).finish()[0] == exactly(3));
  }
}

TEST_CASE("A contention resource of three kinds slows three together, and two of them no more than their pair") {
  // Each keeps half beside the two others, and .75 beside one: 1.5 in all, whether two or three run.
  Interference three{InterferenceClass::Compute, InterferenceClass::Inter, .5, .5, {}};
  three.c = KeptSpeed{InterferenceClass::Intra, .5};
  const auto run = [&](double first, double second, double third) {
    const auto pair = [](double seconds) { return half(seconds, .75); };
    Together together(7);
    together.op({use(0, first), use(3, pair(first)), use(4, pair(first)), share(three, 0, 6, first)});
    together.op({use(1, second), use(3, pair(second)), use(5, pair(second)), share(three, 1, 6, second)});
    if (third > 0) together.op({use(2, third), use(4, pair(third)), use(5, pair(third)), share(three, 2, 6, third)});
    return together.finish();
  };
  // 3 s at 3/4 each.
  CHECK(run(3, 3, 0)[0] == exactly(4));
  // The first ends at 1 / .5 = 2. The others did 1 of 4 s by then, and 3 at 3/4 take 4.
  const auto finish = run(1, 4, 4);
  CHECK(finish[0] == exactly(2));
  CHECK(finish[1] == exactly(6));
  CHECK(finish[2] == exactly(6));
}

TEST_CASE("A contention resource reproduces the slow-down of a pair") {
  constexpr double eta = 0.9, mu = 0.8;  // of computation, of communication
  const auto run = [&](double gemm, double all_to_all) {
    return Together(6)
        .op({use(compute, gemm), use(compute_inter, half(gemm, eta))})
        .op({use(inter, all_to_all), use(compute_inter, half(all_to_all, mu))})
        .finish();
  };
  SECTION("alone, nothing slows an op") {
    CHECK(Together(6).op({use(compute, 1), use(compute_inter, half(1, eta))}).finish()[0] == exactly(1));
    CHECK(Together(6).op({use(inter, 1), use(compute_inter, half(1, mu))}).finish()[0] == exactly(1));
  }
  SECTION("the shorter is the GEMM") {
    // The GEMM ends at 1 / 0.9. By then the other did 0.8 / 0.9 of its 10 s; the rest runs at full speed.
    const auto finish = run(1, 10);
    CHECK(finish[0] == exactly(1 / 0.9));
    CHECK(finish[1] == exactly(1 / 0.9 + (10 - 0.8 / 0.9)));  // 10.2222...
  }
  SECTION("the shorter is the communication") {
    // It ends at 1 / 0.8 = 1.25. By then the GEMM did 0.9 * 1.25 = 1.125 of its 10 s.
    const auto finish = run(10, 1);
    CHECK(finish[0] == exactly(1.25 + (10 - 1.125)));
    CHECK(finish[1] == exactly(1.25));
  }
  SECTION("only the overlap counts") {
    // The GEMM of 2 s is alone until 1 and has 1 s left: 1 / 0.9 more. The communication did 0.8 / 0.9 of its 1 s.
    const auto finish = Together(6)
                            .op({use(compute, 2), use(compute_inter, half(2, eta))})
                            .op({use(inter, 1), use(compute_inter, half(1, mu))}, 1)
                            .finish();
    CHECK(finish[0] == exactly(1 + 1 / 0.9));
    CHECK(finish[1] == exactly(1 + 1 / 0.9 + (1 - 0.8 / 0.9)));
  }
}

TEST_CASE("A pair of unequal speeds has unequal shares of the contention resource") {
  // Speeds 0.9 and 0.3: shares 3 and 1 of 4, so demands 0.75 / 0.9 in three flows and 0.25 / 0.3 in one.
  const auto finish = Together(6)
                          .op({use(compute, 1), use(compute_inter, 0.75 / 0.9, 3)})
                          .op({use(inter, 10), use(compute_inter, 10 * 0.25 / 0.3, 1)})
                          .finish();
  CHECK(finish[0] == exactly(1 / 0.9));
  CHECK(finish[1] == exactly(1 / 0.9 + (10 - 0.3 / 0.9)));  // 10.7777...
}

TEST_CASE("Three kinds of op at once are each held by their slowest pair") {
  // Pairs: compute 0.9 with inter 0.8; compute 0.95 with intra 0.7; inter and intra do not slow each other.
  // - Compute goes at min(0.9, 0.95), inter at min(0.8, 1).
  // - Of compute/intra, compute then uses 0.9 * 0.5 / 0.95 = 9/19, so intra has 10/19 and goes at
  //   10/19 / (0.5 / 0.7) = 14/19, a little above its 0.7.
  // Compute ends at 1 / 0.9; the other two then finish at full speed.
  const auto finish = Together(6)
                          .op({use(compute, 1), use(compute_inter, half(1, 0.9)), use(compute_intra, half(1, 0.95))})
                          .op({use(inter, 1), use(compute_inter, half(1, 0.8)), use(inter_intra, half(1, 1))})
                          .op({use(intra, 1), use(compute_intra, half(1, 0.7)), use(inter_intra, half(1, 1))})
                          .finish();
  const double end = 1 / 0.9;
  CHECK(finish[0] == exactly(end));
  CHECK(finish[1] == exactly(end + (1 - end * 0.8)));
  CHECK(finish[2] == exactly(end + (1 - end * 14 / 19)));
}

TEST_CASE("An op that starts when another ends does not slow it") {
  // 0.1 + 0.2 and 0.3 differ in the last bit, so that one of the two streams comes first by a hair.
  HandMade made(3, 2);
  made.add(0, {}, 0, {use(0, 0.1)});
  const OpId before = made.add(0, {}, 0, {use(0, 0.2)});
  const OpId ends = made.add(1, {}, 0, {use(1, 0.3)});
  const OpId starts = made.add(2, {before}, 0, {use(1, 0.5)});
  const Timeline timeline = dovetail::sim::SimGridBackend().run(made.priced());
  CHECK(timeline.ops[ends].finish.value() == exactly(0.3));
  CHECK(timeline.ops[starts].finish.value() == exactly(0.8));
}

TEST_CASE("No resource gives more seconds than pass") {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    INFO("seed " << seed);
    const PricedSchedule priced = random_priced(seed, {.ops = 60, .streams = 6, .shared_resources = 2});
    const Timeline timeline = dovetail::sim::SimGridBackend().run(priced);
    Seconds makespan;
    for (const Interval& op : timeline.ops) makespan = std::max(makespan, op.finish);
    std::vector<Seconds> used(priced.resources.size());
    for (std::size_t a = 0; a < priced.activity_count(); ++a)
      for (const Demand& demand : priced.demands_of(ActivityId(a)))
        used[static_cast<std::size_t>(demand.resource)] += demand.seconds;
    for (const Seconds seconds : used) CHECK(seconds <= makespan * (1 + 1e-12));
  }
}

// With three or more ops SimGrid's solver leaves capacity unused: it subtracts what a settled activity got last again
// in every round. So only pairs are compared.
TEST_CASE("The analytic backend predicts what SimGrid simulates where two ops share") {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    const PricedSchedule priced = random_priced(seed, {.ops = 60, .streams = 2, .shared_resources = 5});
    const Timeline simulated = dovetail::sim::SimGridBackend().run(priced), predicted = AnalyticBackend().run(priced);
    for (const OpId i : simulated.ops.ids()) {
      REQUIRE(predicted.ops[i].start.value() == Approx(simulated.ops[i].start.value()).epsilon(1e-9));
      REQUIRE(predicted.ops[i].finish.value() == Approx(simulated.ops[i].finish.value()).epsilon(1e-9));
    }
  }
}

namespace {

void check_same(const PricedSchedule& priced) {
  const Timeline simulated = dovetail::sim::SimGridBackend().run(priced), predicted = AnalyticBackend().run(priced);
  for (const OpId i : simulated.ops.ids()) {
    REQUIRE(predicted.ops[i].start.value() == Approx(simulated.ops[i].start.value()).epsilon(1e-9));
    REQUIRE(predicted.ops[i].finish.value() == Approx(simulated.ops[i].finish.value()).epsilon(1e-9));
  }
}

}  // namespace

TEST_CASE("An op ends with the last of its activities, which share") {
  HandMade made(1, 3);
  // 1 s and 3 s on one resource: halves until 2, then the second has 2 s left alone. The third has its own.
  const ActivityId a = made.activity({use(0, 1)}), b = made.activity({use(0, 3)}), c = made.activity({use(1, 2.5)});
  made.add_of(0, {}, .5, {a, b, c});
  made.add(0, {}, 0, {use(2, 1)});
  const auto finish = finish_of(made);
  CHECK(finish[0] == exactly(.5 + 4));
  CHECK(finish[1] == exactly(5.5));
}

TEST_CASE("An activity of two ops begins after the fixed time of both and ends with both") {
  HandMade made(2, 4);
  const ActivityId both = made.activity({use(0, 2), use(1, 1)});
  const ActivityId first = made.activity({use(2, 1)}), second = made.activity({use(3, 7)});
  made.add_of(0, {}, 1, {first, both});
  made.add_of(1, {}, 3, {both, second});
  made.add(0, {}, 1, {});  // behind the first
  const auto finish = finish_of(made);
  CHECK(finish[0] == exactly(3 + 2));
  CHECK(finish[1] == exactly(3 + 7));
  CHECK(finish[2] == exactly(6));
}

TEST_CASE("Ops without activities, and activities without demands, take their fixed time") {
  HandMade made(2, 1);
  const ActivityId nothing = made.activity({});
  made.add_of(0, {}, 1, {});
  made.add_of(0, {}, 2, {nothing});
  made.add(1, {}, 0, {use(0, 1)});
  const auto finish = finish_of(made);
  CHECK(finish[0] == exactly(1));
  CHECK(finish[1] == exactly(3));
  CHECK(finish[2] == exactly(1));
}

TEST_CASE("A resource that gets slower and faster again") {
  HandMade made(2, 2);
  // 2 s of work before 2, 1 s of it in the 4 s at a quarter, the last at full speed: 2 + 4 + 1. The op of the other
  // resource is not touched.
  made.add(0, {}, 0, {use(0, 4)});
  made.add(1, {}, 0, {use(1, 4)});
  made.change(0, 2, .25);
  made.change(0, 6, 1);
  const auto finish = finish_of(made);
  CHECK(finish[0] == exactly(7));
  CHECK(finish[1] == exactly(4));
}

TEST_CASE("A slower resource is shared as evenly, and holds nobody back who is slower still") {
  HandMade made(2, 2);
  // The resource has 1/2. The second op's other resource allows it 1/8, which takes 1/16; the first gets 7/16 and ends
  // at 16/7.
  made.add(0, {}, 0, {use(0, 1)});
  made.add(1, {}, 0, {use(0, .5), use(1, 8)});
  made.change(0, 0, .5);
  const auto finish = finish_of(made);
  CHECK(finish[0] == exactly(16. / 7));
  CHECK(finish[1] == exactly(8));
}

TEST_CASE("Random speed changes: predicted as simulated") {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    INFO("seed " << seed);
    check_same(random_priced(seed, {.ops = 30, .streams = 2, .shared_resources = 2, .speed_changes = 6}));
    check_same(random_priced(seed, {.ops = 30, .streams = 5, .speed_changes = 6}));
  }
}

TEST_CASE("Random activities of which at most two meet: predicted as simulated") {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    INFO("seed " << seed);
    check_same(random_priced(seed, {.ops = 40, .streams = 1, .shared_resources = 3, .activities = 2}));
    check_same(random_priced(seed, {.ops = 40, .streams = 4, .activities = 1, .speed_changes = 3}));
  }
}

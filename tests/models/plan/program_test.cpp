// SPDX-License-Identifier: Apache-2.0
// Programs, timed with units of equal length and free transfers where nothing else is said.
#include "models/plan/program.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <tuple>

#include "models/base/errors.hpp"

using namespace dovetail;
using Catch::Contains;

namespace {

constexpr auto letters = "FBIW";

// "F0 B0 ..." of a rank, with a ' for each stage of the rank before; pairs as "(F1 B0)".
std::string text(const Program& p, int rank) {
  const auto of = [&](const Unit& u) {
    const auto before = std::count(p.rank_of.begin(), p.rank_of.begin() + u.stage, rank);
    return letters[static_cast<int>(u.kind)] + std::to_string(u.micro_batch) +
           std::string(static_cast<std::size_t>(before), '\'');
  };
  std::string result;
  for (const Slot& slot : p.ranks[static_cast<std::size_t>(rank)])
    result += (slot.beside ? "(" + of(slot.unit) + " " + of(*slot.beside) + ")" : of(slot.unit)) + " ";
  return result;
}

struct Times {
  double forward, inputs, weights;
  double pair = 0;  // of a forward and a whole backward pass beside each other; 0: their sum
  double of(UnitKind kind) const {
    return std::array{forward, inputs + weights, inputs, weights}[static_cast<std::size_t>(kind)];
  }
};

struct Run {
  double makespan = 0;
  std::vector<double> span;  // by rank: from its first unit's begin to its last one's end
};

// A slot begins after its rank's last one and after the units that its units' data come from.
Run run(const Program& p, const Times& times) {
  Run r;
  std::map<std::tuple<int, bool, int>, double> finish;
  std::vector<double> begin(p.ranks.size(), -1), free(p.ranks.size());
  std::vector<std::size_t> next(p.ranks.size());
  const auto ready = [&](const Unit& u) {
    if (u.kind == UnitKind::WeightGradient) return 0.0;
    const bool forward = u.kind == UnitKind::Forward;
    const int from = u.stage + (forward ? -1 : 1);
    if (forward ? p.is_first(u.stage) : p.is_last(u.stage)) return 0.0;
    const auto at = finish.find({from, forward, u.micro_batch});
    return at == finish.end() ? -1 : at->second;
  };
  for (bool more = true; more;) {
    more = false;
    for (std::size_t rank = 0; rank < p.ranks.size(); ++rank) {
      if (next[rank] == p.ranks[rank].size()) continue;
      const Slot& slot = p.ranks[rank][next[rank]];
      const double first = ready(slot.unit), second = slot.beside ? ready(*slot.beside) : 0;
      if (first < 0 || second < 0) continue;
      ++next[rank], more = true;
      const double start = std::max({free[rank], first, second});
      if (begin[rank] < 0) begin[rank] = start;
      double end = start + times.of(slot.unit.kind);
      if (slot.beside) end = times.pair > 0 ? start + times.pair : end + times.of(slot.beside->kind);
      for (const Unit* u : {&slot.unit, slot.beside ? &*slot.beside : nullptr})
        if (u != nullptr && u->kind != UnitKind::WeightGradient)
          finish[{u->stage, u->kind == UnitKind::Forward, u->micro_batch}] = end;
      free[rank] = end;
    }
  }
  for (std::size_t rank = 0; rank < free.size(); ++rank) {
    REQUIRE(next[rank] == p.ranks[rank].size());
    r.span.push_back(free[rank] - begin[rank]);
    r.makespan = std::max(r.makespan, free[rank]);
  }
  return r;
}

}  // namespace

TEST_CASE("What a rank does: all forwards first, or as few ahead as the ranks after it need") {
  CHECK(text(make_program(pipeline_schedule("gpipe"), 3, 4), 0) == "F0 F1 F2 F3 B3 B2 B1 B0 ");
  CHECK(text(make_program(pipeline_schedule("1f1b"), 3, 4), 0) == "F0 F1 F2 B0 F3 B1 B2 B3 ");
  CHECK(text(make_program(pipeline_schedule("1f1b"), 3, 4), 1) == "F0 F1 B0 F2 B1 F3 B2 B3 ");
  CHECK(text(make_program(pipeline_schedule("1f1b"), 3, 4), 2) == "F0 B0 F1 B1 F2 B2 F3 B3 ");
  CHECK(text(make_program(pipeline_schedule("1f1b"), 4, 2), 0) == "F0 F1 B0 B1 ");
  CHECK(text(forward_only(make_program(pipeline_schedule("gpipe"), 1, 2)), 0) == "F0 F1 ");
}

TEST_CASE("With equal units and free transfers a step takes (m + p - 1)(t_f + t_b) in both orders") {
  for (int p : {1, 2, 3, 4, 8})
    for (int m : {1, 2, 3, 4, 7, 16}) {
      const double expected = (m + p - 1) * (2 + 3);
      const Times times{2, 1, 2};
      CHECK(run(make_program(pipeline_schedule("gpipe"), p, m), times).makespan == expected);
      const Program program = make_program(pipeline_schedule("1f1b"), p, m);
      CHECK(run(program, times).makespan == expected);
      for (int r = 0; r < p; ++r) CHECK(most_live(program)[static_cast<std::size_t>(r)] == std::min(m, p - r));
    }
}

TEST_CASE("Interleaved: groups of p micro-batches pass all laps, forward from the first, backward from the last") {
  // p = 2, v = 2, m = 4: stage 0 is 2 (2 - 0 - 1) + (2 - 1) 2 = 4 units ahead, stage 1 is 2 ahead.
  CHECK(text(make_program(pipeline_schedule("interleaved"), 2, 4, 2), 0) ==
        "F0 F1 F0' F1' F2 B0' F3 B1' F2' B0 F3' B1 B2' B3' B2 B3 ");
  CHECK(text(make_program(pipeline_schedule("interleaved"), 2, 4, 2), 1) ==
        "F0 F1 F0' B0' F1' B1' F2 B0 F3 B1 F2' B2' F3' B3' B2 B3 ");
  // All units are ahead where there are no more: m v = 4.
  CHECK(text(make_program(pipeline_schedule("interleaved"), 2, 2, 2), 0) == "F0 F1 F0' F1' B0' B1' B0 B1 ");
}

TEST_CASE("Interleaved: laps divide the bubble (p - 1)(t_f + t_b), and keep 2 (p - r - 1) + (v - 1) p + 1 units") {
  for (int p : {2, 3, 4, 8})
    for (int v : {2, 3, 4})
      for (int groups : {1, 2, 5}) {
        const int m = groups * p;
        const double f = 2, b = 3;  // of a rank, all laps together
        const Program program = make_program(pipeline_schedule("interleaved"), p, m, v);
        CHECK(run(program, {f / v, 1.0 / v, 2.0 / v}).makespan ==
              Approx(m * (f + b) + (p - 1) * (f + b) / v).epsilon(1e-12));
        for (int r = 0; r < p; ++r)
          CHECK(most_live(program)[static_cast<std::size_t>(r)] == std::min(m * v, 2 * (p - r - 1) + (v - 1) * p + 1));
      }
  // Published by Megatron-LM's schedule: p = 8, v = 4 keep 2 x 7 + 3 x 8 + 1 = 39 quarters of a micro-batch on rank 0.
  CHECK(most_live(make_program(pipeline_schedule("interleaved"), 8, 16, 4))[0] == 39);
}

TEST_CASE("Interleaved zero bubble: as many units ahead as later ranks need, and weights' halves as many behind") {
  // p = 2, v = 2, m = 4: rank 0 is (2 - 0 - 1) + (2 - 1) 2 = 3 units ahead and makes weights' gradients at once; rank 1
  // is 2 ahead and makes them one unit later.
  const Program small = make_program(pipeline_schedule("interleaved_zb"), 2, 4, 2);
  CHECK(text(small, 0) == "F0 F1 F0' F1' I0' W0' F2 I1' W1' F3 I0 W0 F2' I1 W1 F3' I2' W2' I3' W3' I2 W2 I3 W3 ");
  CHECK(text(small, 1) == "F0 F1 F0' I0' F1' I1' W0' F2 I0 W1' F3 I1 W0 F2' I2' W1 F3' I3' W2' I2 W3' I3 W2 W3 ");
  for (int p : {2, 3, 4, 8})
    for (int v : {2, 3}) {
      const int m = 3 * p;
      const double f = 1, i = 1, w = 1;
      const Program program = make_program(pipeline_schedule("interleaved_zb"), p, m, v);
      validate(program);
      // With equal units, of a rank v (f + i + w) a micro-batch, as 1F1B's zero bubble has it, divided by the laps.
      CHECK(run(program, {f, i, w}).makespan == Approx(m * v * (f + i + w) + (p - 1) * (f + i - w)));
      for (int r = 0; r < p; ++r) CHECK(most_live(program)[static_cast<std::size_t>(r)] == p + (v - 1) * p);
    }
}

TEST_CASE("Zero bubble: weights' halves fill what backward passes left idle") {
  CHECK(text(make_program(pipeline_schedule("zb_h1"), 3, 4), 0) == "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3 ");
  CHECK(text(make_program(pipeline_schedule("zb_h1"), 3, 4), 2) == "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3 ");
  CHECK(text(make_program(pipeline_schedule("zb_h2"), 3, 5), 1) == "F0 F1 F2 I0 F3 I1 F4 I2 W0 I3 W1 I4 W2 W3 W4 ");
  const double f = 5, i = 4, w = 1.5;
  for (int p : {2, 3, 4, 8}) {
    const int m = 3 * p;
    // Qi et al. 2023, table 1: bubbles (p - 1)(T_F + T_B - T_W) and (p - 1)(T_F + T_B - 2 T_W); p and 2 p - 1 live.
    const Program h1 = make_program(pipeline_schedule("zb_h1"), p, m),
                  h2 = make_program(pipeline_schedule("zb_h2"), p, m);
    CHECK(run(h1, {f, i, w}).makespan == Approx(m * (f + i + w) + (p - 1) * (f + i - w)));
    CHECK(std::ranges::max(run(h2, {f, i, w}).span) == Approx(m * (f + i + w) + (p - 1) * (f + i - 2 * w)));
    for (int r = 0; r < p; ++r) {
      CHECK(most_live(h1)[static_cast<std::size_t>(r)] == p);
      CHECK(most_live(h2)[static_cast<std::size_t>(r)] == 2 * p - 1);
    }
  }
}

TEST_CASE("zb_v: no bubble where all units take as long, and as much memory as 1F1B on its first rank") {
  for (int p : {1, 2, 4, 8}) {
    const Program v = make_program(pipeline_schedule("zb_v"), p, 3 * p, 2);
    CHECK(v.rank_of.back() == 0);
    const Run r = run(v, {1, 1, 1});
    for (int rank = 0; rank < p; ++rank) {
      CHECK(r.span[static_cast<std::size_t>(rank)] == 3 * p * 6);
      CHECK(most_live(v)[static_cast<std::size_t>(rank)] == 2 * p);  // halves of a micro-batch
    }
  }
}

TEST_CASE("dualpipe_v: forwards beside backwards, the bubble of DualPipe where its premises hold") {
  // p = 2, m = 4: phase by phase as DeepSeek's scheduler has them; rank 1 begins without a pair.
  CHECK(text(make_program(pipeline_schedule("dualpipe_v"), 2, 4, 2), 0) ==
        "F0 F1 F2 F0' I0' W0' F1' (F3 B1') (F2' B0) B2' (F3' B1) B3' I2 W2 I3 W3 ");
  CHECK(text(make_program(pipeline_schedule("dualpipe_v"), 2, 4, 2), 1) ==
        "F0 F0' F1 F1' F2 B0' (F2' B0) (F3 B1') (F3' B1) B2' B2 I3' I3 W3' W3 ");
  // The published bubble (PP / 2 - 1)(F&B + B - 3 W) is that of PP / 2 = p ranks; it is exact where F = I = W.
  for (int p : {2, 3, 4, 8})
    for (int m : {2 * p, 2 * p + 3, 5 * p}) {
      const Program v = make_program(pipeline_schedule("dualpipe_v"), p, m, 2);
      const Times times{1, 1, 1, 2.4};
      const Run r = run(v, times);
      double work = 0;
      for (const Slot& slot : v.ranks.back()) work += slot.beside ? times.pair : times.of(slot.unit.kind);
      CHECK(r.makespan - work == Approx((p - 1) * (times.pair + 2 - 3)).margin(1e-9));
      for (const int live : most_live(v)) CHECK(live == 2 * p + 1);  // PP + 1
    }
}

TEST_CASE(
    "dualpipe: two pipelines of half of the micro-batches each, DualPipe's bubble and PP + 1 live ones everywhere") {
  // Rank 0 of 4 does with its stages 0 and 7 what rank 0 of 2 does with dualpipe_v, where the second pipeline has
  // micro-batches 4 to 7; rank 3 does the same with the pipelines exchanged.
  const Program four = make_program(pipeline_schedule("dualpipe"), 4, 8, 2);
  CHECK(four.rank_of == std::vector{0, 1, 2, 3, 3, 2, 1, 0});
  CHECK(text(four, 0) == "F0 F1 F2 F4' I4' W4' F5' (F3 B5') (F6' B0) B6' (F7' B1) B7' I2 W2 I3 W3 ");
  CHECK(text(four, 3) == "F4' F5' F6' F0 I0 W0 F1 (F7' B1) (F2 B4') B2 (F3 B5') B3 I6' W6' I7' W7' ");
  CHECK(four.contains({UnitKind::Forward, 3, 3}));
  CHECK_FALSE(four.contains({UnitKind::Forward, 3, 4}));
  CHECK(four.contains({UnitKind::Forward, 4, 4}));
  // The published bubble (PP / 2 - 1)(F&B + B - 3 W) is exact where F = I = W.
  for (int p : {2, 4, 8, 16})
    for (int m : {2 * p, 2 * p + 6, 5 * p}) {
      const Program program = make_program(pipeline_schedule("dualpipe"), p, m, 2);
      CHECK_NOTHROW(validate(program));
      const Times times{1, 1, 1, 2.4};
      double work = 0;
      for (const Slot& slot : program.ranks[static_cast<std::size_t>(p / 2)])
        work += slot.beside ? times.pair : times.of(slot.unit.kind);
      CHECK(run(program, times).makespan - work == Approx((p / 2 - 1) * (times.pair + 2 - 3)).margin(1e-9));
      for (const int live : most_live(program)) CHECK(live == p + 1);
    }
  CHECK_THROWS_WITH(make_program(pipeline_schedule("dualpipe"), 4, 9, 2), Contains("expected even numbers"));
  CHECK_THROWS_WITH(make_program(pipeline_schedule("dualpipe"), 3, 8, 2), Contains("expected even numbers"));
  CHECK_THROWS_WITH(make_program(pipeline_schedule("dualpipe"), 4, 6, 2), Contains("expected at least 8"));
}

TEST_CASE("Every program has each unit once, and none waits for ever") {
  for (const auto& [name, schedule] : pipeline_schedule_names) {
    if (name == "listed") continue;
    const StageShape shape = entry_of(schedule).shape;
    const int laps = shape == StageShape::Laps ? 3 : shape == StageShape::One ? 1 : 2;
    INFO(name);
    for (int p : {1, 2, 3, 5, 8})
      for (int m : {2 * p, 3 * p, 7 * p}) {
        if (!entry_of(schedule).may_have(m, p)) continue;
        const Program program = make_program(schedule, p, m, laps);
        CHECK_NOTHROW(validate(program));
        CHECK_NOTHROW(validate(forward_only(program)));
        CHECK(in_order(forward_only(program)).size() == static_cast<std::size_t>(p * laps * m / pipelines_of(shape)));
      }
    if (entry_of(schedule).least_per_rank > 0) continue;
    for (int p : {2, 5})
      for (int m : {1, 2, 3, 4}) CHECK_NOTHROW(validate(make_program(schedule, p, m, laps)));
  }
}

TEST_CASE("Paired programs run more forward passes ahead, and then both beside each other") {
  CHECK(text(make_program(pipeline_schedule("1f1b"), 1, 4, 1, Turns::Paired), 0) == "F0 (F1 B0) (F2 B1) (F3 B2) B3 ");
  const Program two = make_program(pipeline_schedule("1f1b"), 2, 5, 1, Turns::Paired);
  CHECK(text(two, 0) == "F0 F1 F2 (F3 B0) (F4 B1) B2 B3 B4 ");
  CHECK(text(two, 1) == "F0 (F1 B0) (F2 B1) (F3 B2) (F4 B3) B4 ");
  // Two ranks take turns with no wait in between: F0 F1 on the first one, then 20 pairs that take 3, then B18 and B19.
  const Program many = make_program(pipeline_schedule("1f1b"), 2, 20, 1, Turns::Paired);
  CHECK(run(many, {1, 1, 1}).makespan == Approx(2 * 1 + 20 * 3 + 1));
  for (const auto& [name, schedule] : pipeline_schedule_names) {
    if (!entry_of(schedule).pairs) continue;
    const StageShape shape = entry_of(schedule).shape;
    INFO(name);
    for (int p : {1, 2, 3, 5, 8})
      for (int m : {2 * p, 3 * p, 7 * p})
        if (entry_of(schedule).may_have(m, p))
          CHECK_NOTHROW(validate(make_program(schedule, p, m, shape == StageShape::One ? 1 : 2, Turns::Paired)));
  }
}

// Megatron-LM's overlap of micro-batches: warm-up of (p - r - 1) 2 + (v - 1) p + 1 chunks. p = 8, v = 4, rank 0: 39
// chunks are live without pairs, 40 with them. A pair that takes as long as its parts has the bubble (p - 1)(F + B)/v.
TEST_CASE("Pairs of interleaved passes hold one more chunk, and the bubble stays") {
  const int p = 8, v = 4, m = 32;
  const Program apart = make_program(pipeline_schedule("interleaved"), p, m, v),
                paired = make_program(pipeline_schedule("interleaved"), p, m, v, Turns::Paired);
  for (int rank = 0; rank < p; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    CHECK(most_live(apart)[at] == 2 * (p - rank - 1) + (v - 1) * p + 1);
    CHECK(most_live(paired)[at] == most_live(apart)[at] + 1);
  }
  const double bubble = (p - 1) * (1 + 2);
  CHECK(run(apart, {1, 1, 1}).makespan == Approx(m * v * 3 + bubble));
  CHECK(run(paired, {1, 1, 1}).makespan == Approx(m * v * 3 + bubble));
}

TEST_CASE("Whole backward passes may be made into halves") {
  CHECK(text(in_halves(make_program(pipeline_schedule("1f1b"), 2, 2)), 1) == "F0 I0 W0 F1 I1 W1 ");
  CHECK_NOTHROW(validate(in_halves(make_program(pipeline_schedule("dualpipe_v"), 3, 7, 2))));
}

TEST_CASE("Wrong programs are refused") {
  CHECK_THROWS_WITH(make_program(pipeline_schedule("1f1b"), 2, 2, 2), Contains("1f1b: 2 stages a rank"));
  CHECK_THROWS_WITH(make_program(pipeline_schedule("zb_v"), 2, 2), Contains("zb_v: 1 stages a rank"));
  CHECK_THROWS_WITH(make_program(pipeline_schedule("interleaved"), 4, 6, 2),
                    Contains("6 micro-batches, expected a multiple of 4 ranks"));
  CHECK_THROWS_WITH(make_program(pipeline_schedule("dualpipe_v"), 4, 7, 2),
                    Contains("7 micro-batches, expected at least 8"));

  Program p = make_program(pipeline_schedule("1f1b"), 2, 2);
  SECTION("a unit twice") {
    p.ranks[0].push_back(p.ranks[0].front());
    CHECK_THROWS_WITH(validate(p), "rank 0: 0F0 was done before");
  }
  SECTION("a unit missing") {
    p.ranks[1].pop_back();
    CHECK_THROWS_WITH(validate(p), Contains("lacks a pass"));
  }
  SECTION("a half without the other") {
    p.ranks[1].back().unit.kind = UnitKind::InputGradient;
    CHECK_THROWS_WITH(validate(p), Contains("lacks a pass"));
  }
  SECTION("a unit of another rank") {
    p.ranks[1].back().unit.stage = 0;
    CHECK_THROWS_WITH(validate(p), "rank 1: 0B1 is of no stage or micro-batch of this rank");
  }
  SECTION("ranks that wait for each other") {
    std::swap(p.ranks[0][0], p.ranks[0].back());
    CHECK_THROWS_WITH(validate(p), "rank 0 waits for ever to begin 0B1");
  }
}

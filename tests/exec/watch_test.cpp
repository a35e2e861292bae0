// SPDX-License-Identifier: Apache-2.0
#include "exec/launch/watch.hpp"

#include <catch2/catch.hpp>

#include "models/plan/plan.hpp"
#include "models/price/build_schedule.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using Catch::Matchers::Contains;

TEST_CASE("A beat survives its line, and nothing else is one") {
  const std::string line = to_line({.rank = 3, .finished = 123, .op = Progress::none, .longest = 2.5});
  const auto beat = parse_beat(std::string_view(line).substr(0, line.size() - 1));
  REQUIRE(beat);
  CHECK(beat->rank == 3);
  CHECK(beat->finished == 123);
  CHECK(beat->op == Progress::none);
  CHECK(beat->longest == 2.5);
  CHECK_FALSE(parse_beat(line));  // its line break is no part of it
  CHECK_FALSE(parse_beat("dovetail-exec rank 3 finished"));
  CHECK_FALSE(parse_beat(""));
}

TEST_CASE("Progress knows the earliest of the ops that run") {
  Progress progress(3);
  CHECK(progress.earliest() == Progress::none);
  {
    const Progress::Running late(&progress, 2, OpId(9)), early(&progress, 0, OpId(4));
    CHECK(progress.earliest() == OpId(4));
  }
  CHECK(progress.earliest() == Progress::none);
  CHECK(progress.finished() == 2);
}

TEST_CASE("A watch names the ranks that nobody gets past, and those that say nothing") {
  const Experiment e = test::round_numbers(1);
  const Schedule schedule = build_schedule(e, Plan{});
  const std::string name = to_string(schedule.ops[OpId(2)]);
  Watch watch(schedule, 3, 8, 0);
  for (const double now : {0., 5., 10.}) {
    watch.heard({0, 7, OpId(3), 0}, now);  // waits in the op after
    watch.heard({1, 6, OpId(2), 0}, now);
    watch.heard({2, 7, OpId(3), 0}, now);
  }
  CHECK_FALSE(watch.complaint(7));
  CHECK_THAT(*watch.complaint(10), Contains("for 8 s: rank 1 does not get past " + name));
  watch.heard({1, 7, OpId(3), 0}, 11);  // it went on
  CHECK_FALSE(watch.complaint(12));
  for (const double now : {14., 18., 22.}) {
    watch.heard({0, 9, OpId(5), 0}, now);
    watch.heard({1, 9, OpId(5), 0}, now);
  }
  CHECK_THAT(*watch.complaint(22), Contains("rank 2 has said nothing for 8 s, last in "));
  CHECK(watch.place_of(2) == "last in " + to_string(schedule.ops[OpId(3)]));
}

TEST_CASE("A watch counts from the launch, and names a rank that never said anything") {
  const Experiment e = test::round_numbers(1);
  const Schedule schedule = build_schedule(e, Plan{});
  Watch watch(schedule, 3, 8, 100);
  CHECK_FALSE(watch.complaint(132));  // machines may take 4 x 8 s to answer
  CHECK_THAT(*watch.complaint(133), Contains("no process has said anything in the 32 s since they were launched"));
  watch.heard({0, 0, Progress::none, 0}, 130);
  CHECK_FALSE(watch.complaint(138));
  watch.heard({2, 0, Progress::none, 0}, 135);  // the others are still coming
  for (const double now : {138., 143., 144.})
    for (const int rank : {0, 2}) watch.heard({rank, 0, Progress::none, 0}, now);
  CHECK_FALSE(watch.complaint(143));
  CHECK_THAT(*watch.complaint(144), Contains("rank 1 has said nothing for 8 s, before its first step"));
}

TEST_CASE("A watch waits twice as long as the longest op") {
  const Experiment e = test::round_numbers(1);
  const Schedule schedule = build_schedule(e, Plan{});
  Watch watch(schedule, 1, 8, 0);
  for (double now = 0; now <= 21; ++now) watch.heard({0, 1, OpId(2), 10}, now);
  CHECK_FALSE(watch.complaint(20));
  CHECK_THAT(*watch.complaint(21), Contains("no op has finished for 20 s"));
}

TEST_CASE("Between steps a watch is patient, and what is no op is no beat") {
  const Experiment e = test::round_numbers(1);
  const Schedule schedule = build_schedule(e, Plan{});
  Watch watch(schedule, 2, 8, 0);
  for (double now = 0; now < 100; now += 5) {  // computing the reference
    watch.heard({0, 0, Progress::none, 0}, now);
    watch.heard({1, 0, Progress::none, 0}, now);
    CHECK_FALSE(watch.complaint(now));
  }
  watch.heard({0, 0, OpId(100000), 0}, 100);
  watch.heard({9, 0, OpId(0), 0}, 100);
  CHECK(watch.place_of(0) == "last between two ops");
  watch.heard({0, 0, OpId(0), 0}, 101);  // the first step begins
  watch.heard({1, 0, OpId(0), 0}, 101);
  CHECK_FALSE(watch.complaint(102));
}

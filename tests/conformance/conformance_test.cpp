// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/conformance.hpp"

#include <catch2/catch.hpp>
#include <vector>

#include "models/plan/plan.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "tests/support/hand_made.hpp"

using namespace dovetail;
using namespace dovetail::test;

namespace {

template <class Test>
void for_each_simulating_backend(Test&& test) {
  for (const BackendUnderTest& candidate : backends_under_test()) {
    if (candidate.needs_operands) continue;
    INFO("backend " << candidate.name);
    const std::unique_ptr<Backend> backend = candidate.make({});
    test(*backend);
  }
}

}  // namespace

TEST_CASE("Each backend has the name it is listed under") {
  for (const BackendUnderTest& candidate : backends_under_test()) CHECK(candidate.make({})->name() == candidate.name);
}

TEST_CASE("Backends conform on the schedules of plans") {
  const bool staged = GENERATE(false, true);
  Experiment experiment = conformance_experiment(4, staged);
  experiment.calibration.edit().interference = {{InterferenceClass::Compute, InterferenceClass::Inter, 0.9, 0.8, {}},
                                                {InterferenceClass::Compute, InterferenceClass::Intra, 0.95, 0.3, {}},
                                                {InterferenceClass::Compute, InterferenceClass::Copy, 0.95, 0.7, {}}};
  for (const Plan& plan : conformance_plans(staged)) {
    const auto schedule = std::make_shared<const Schedule>(build_schedule(experiment, plan));
    const PricedSchedule priced = price(schedule, experiment);
    for (const BackendUnderTest& candidate : backends_under_test()) {
      INFO("backend " << candidate.name << ", degree " << plan.forward_degree);
      check_conformance(*candidate.make(experiment), priced);
    }
  }
}

TEST_CASE("Backends conform where launches take the host time, and it waits") {
  const bool staged = GENERATE(false, true);
  Experiment experiment = conformance_experiment(4, staged);
  experiment.calibration.edit().host = HostCost{Seconds(1e-4), {}};
  for (Plan plan : conformance_plans(staged)) {
    plan.host_sync = true;
    plan.graphs = Graphs::Attention;
    const PricedSchedule priced = price_plan(experiment, plan);
    for (const BackendUnderTest& candidate : backends_under_test()) {
      INFO("backend " << candidate.name << ", degree " << plan.forward_degree);
      check_conformance(*candidate.make(experiment), priced);
    }
  }
  for_each_simulating_backend([](Backend& backend) {
    for (std::uint32_t seed = 0; seed < 50; ++seed) {
      INFO("seed " << seed);
      check_conformance(backend, random_priced(seed, {.launches = true}));
      check_conformance(backend, random_priced(seed, {.ops = 60, .shared_resources = 4, .launches = true}));
      check_conformance(
          backend, random_priced(seed, {.shared_resources = 4, .activities = 3, .speed_changes = 5, .launches = true}));
    }
  });
}

// A host that takes 2 s a launch and ops of 1, 5, 1 and 1 s: they are issued at 2, 4, 6 and, after a wait, at 11. Op 0
// runs 2..3 and op 1 beside it 4..9. Op 2 follows op 0 on its stream: 6..7. The wait ends at 9, and op 3 is issued
// at 11.
TEST_CASE("An op begins when its host has issued it, and a host that waits goes on after that") {
  HandMade made(2, 2);
  made.launches_take(2);
  made.add(StreamId(0), {}, 0, {use(0, 1)});
  made.add(StreamId(1), {}, 0, {use(1, 5)});
  made.add(StreamId(0), {}, 0, {use(0, 1)});
  made.wait(StreamId(0));
  made.add(StreamId(1), {}, 0, {use(1, 1)});
  const PricedSchedule priced = made.priced();
  for_each_simulating_backend([&](Backend& backend) {
    const Timeline timeline = backend.run(priced);
    const std::vector<std::pair<double, double>> expected{{2, 3}, {4, 9}, {6, 7}, {9, 9}, {11, 12}};
    for (const OpId i : timeline.ops.ids()) {
      INFO("op " << i);
      CHECK(timeline.ops[i].start.value() == Approx(expected[static_cast<std::size_t>(i)].first));
      CHECK(timeline.ops[i].finish.value() == Approx(expected[static_cast<std::size_t>(i)].second));
    }
    // Back from op 3: 2 s of launch after the wait, which waited for op 1, which waited 4 s for its launch.
    CHECK(launch_bound(*priced.schedule, timeline).value() == Approx(6));
  });
  CHECK(plan_bound(priced) == Seconds(10));  // op 1 issued at 4, its 5 s, the wait, and op 3
}

TEST_CASE("Backends conform on random schedules without sharing") {
  for_each_simulating_backend([](Backend& backend) {
    for (std::uint32_t seed = 0; seed < 50; ++seed) {
      INFO("seed " << seed);
      check_conformance(backend, random_priced(seed, {}));
    }
  });
}

TEST_CASE("Backends conform on random schedules with shared resources") {
  for_each_simulating_backend([](Backend& backend) {
    for (std::uint32_t seed = 0; seed < 50; ++seed) {
      INFO("seed " << seed);
      check_conformance(backend, random_priced(seed, {.ops = 60, .streams = 5, .shared_resources = 4}));
    }
  });
}

TEST_CASE("Backends conform on random schedules of activities that ops share, with changes of speed") {
  for_each_simulating_backend([](Backend& backend) {
    for (std::uint32_t seed = 0; seed < 50; ++seed) {
      INFO("seed " << seed);
      check_conformance(backend,
                        random_priced(seed, {.ops = 60, .streams = 5, .shared_resources = 4, .activities = 3}));
      check_conformance(
          backend, random_priced(seed, {.streams = 3, .shared_resources = 4, .activities = 3, .speed_changes = 5}));
    }
  });
}

TEST_CASE("Backends conform on extreme shapes") {
  for_each_simulating_backend([](Backend& backend) {
    check_conformance(backend, random_priced(1, {.ops = 0}));
    check_conformance(backend, random_priced(2, {.ops = 1}));
    check_conformance(backend, random_priced(3, {.ops = 300, .streams = 1, .shared_resources = 1}));
    check_conformance(backend, random_priced(4, {.ops = 100, .streams = 100, .shared_resources = 2}));
    check_conformance(backend, random_priced(5, {.shortest = 1e-9, .longest = 1e6, .shared_resources = 2}));
  });
}

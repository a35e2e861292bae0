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
  Experiment experiment = conformance_experiment(4, GENERATE(false, true));
  experiment.calibration.edit().interference = {{InterferenceClass::Compute, InterferenceClass::Inter, 0.9, 0.8, {}},
                                                {InterferenceClass::Compute, InterferenceClass::Intra, 0.95, 0.3, {}},
                                                {InterferenceClass::Compute, InterferenceClass::Copy, 0.95, 0.7, {}}};
  for (const Plan& plan : conformance_plans()) {
    const auto schedule = std::make_shared<const Schedule>(build_schedule(experiment, plan));
    const PricedSchedule priced = price(schedule, experiment);
    for (const BackendUnderTest& candidate : backends_under_test()) {
      INFO("backend " << candidate.name << ", degree " << plan.forward_degree);
      check_conformance(*candidate.make(experiment), priced);
    }
  }
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

// SPDX-License-Identifier: Apache-2.0
#include "planners/search/layer_samples.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/planners/random_costs.hpp"

using namespace dovetail;
using namespace dovetail::planners;

namespace {

struct Sampled {
  Experiment experiment = test::testbed_b(2);
  PlanningTask task{experiment, test::moe_plan(), {"dovetail", {1, 2, 3, 4}, false, SearchSpace::Plans}};
  PlanSpace space = plan_space(task);
  VolumeBounds bounds{experiment};
  Volume volume = bounds.volume_of(test::moe_plan()).value();
  LayerSamples samples{task, space};
};

}  // namespace

TEST_CASE("layer samples: each pair of degrees is looked at once, also where it cannot be built") {
  Sampled s;
  Structure structure{s.volume.plan(), &s.volume};
  const LayerSample* sample = s.samples.sample(structure, 2, 2);
  REQUIRE(sample != nullptr);
  CHECK(s.samples.sample(structure, 2, 2) == sample);
  CHECK(s.samples.taken() == 1);
  Plan two = s.volume.plan();
  two.forward_degree = two.backward_degree = 2;
  CHECK(sample->forward.alone == s.volume.steps().sample(two).forward.alone);
  CHECK(s.samples.sample(structure, 1 << 30, 1 << 30) == nullptr);
  CHECK(s.samples.sample(structure, 1 << 30, 1 << 30) == nullptr);
  CHECK(s.samples.taken() == 2);
}

TEST_CASE("layer samples: passes apart from one another share samples of equal degrees") {
  Sampled s;
  Structure apart{s.volume.plan(), &s.volume}, together = apart;
  together.plan.restore = Restore::S1;
  together.plan.buffers = Buffers::Double;
  CHECK(s.samples.separable(apart.plan));
  CHECK_FALSE(s.samples.separable(together.plan));
  const auto [forward, backward] = s.samples.passes(apart, 2, 4);
  CHECK(forward == s.samples.sample(apart, 2, 2));
  CHECK(backward == s.samples.sample(apart, 4, 4));
  const auto [there, back] = s.samples.passes(together, 2, 2);
  CHECK(there == back);
}

TEST_CASE("layer samples: the fastest forward degree is the fastest of all samples") {
  Sampled s;
  Structure structure{s.volume.plan(), &s.volume}, all = structure;
  const auto beaten = [](Seconds) { return false; };
  const std::vector<int> fastest = s.samples.fastest_forward(structure, beaten);
  REQUIRE(fastest.size() == 1);
  Seconds least(1e9);
  for (int degree : s.space.forward_degrees)
    least = std::min(least, s.samples.sample(all, degree, degree)->forward.alone);
  CHECK(s.samples.sample(all, fastest.front(), fastest.front())->forward.alone <= least * (1 + 1e-9));
  CHECK(s.samples.fastest_forward(all, [](Seconds) { return true; }).empty());  // a better plan is known already
}

// SPDX-License-Identifier: Apache-2.0
// Model flops, MFU, waiting and memory by kind, by hand.
#include "models/results/throughput.hpp"

#include <catch2/catch.hpp>

#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/question/model_flops.hpp"
#include "models/time/analytic_backend.hpp"
#include "models/time/memory.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using namespace dovetail::test;

TEST_CASE("Model flops of a small model by hand, whatever the capacity and the groups") {
  // Attention 4 x 8 x 8 = 256, router 8 x 4 = 32, 2 of 4 experts of 2 x 8 x 16 = 256: 800 a layer, two layers.
  Experiment e = round_numbers(2);
  e.model.vocabulary = 10;
  CHECK(model_flops(e).active_parameters == 1600);
  CHECK(model_flops(e).of_parameters == 6 * 1600);
  // A layer 3 s (Q + V): 16 positions, queries and values of 2 heads of 4, that is 8 each.
  CHECK(model_flops(e).of_attention == 2 * 3 * 16 * (8 + 8));
  e.workload.capacity_factor = 2;
  e.workload.extent = Extent::Model;  // 10 words of 8
  CHECK(model_flops(e).active_parameters == 1600 + 80);
  e.workload.phases = Phases::ForwardOnly;
  CHECK(model_flops(e).of_parameters == 2 * 1680);
  e.workload.causal = false;
  CHECK(model_flops(e).of_attention == 2 * 2 * 16 * (8 + 8));
}

TEST_CASE("MFU is model flops over the peak of all GPUs") {
  Experiment e = round_numbers(2);
  Metrics m;
  m.makespan = Seconds(2);
  m.exposed_communication = Seconds(.5);
  const Throughput t = throughput(e, m);
  // Groups of mp 2: two of them with a sample of 16 tokens each. 2 s on 4 GPUs of 1 TFLOP/s.
  CHECK(t.samples == e.parallelism.dp);
  CHECK(t.tokens == 16 * e.parallelism.dp);
  CHECK(t.of_gpu == Approx(t.tokens / 2. / 4));
  CHECK(t.mfu.value() == Approx(model_flops(e).per_token() * t.of_gpu / 1e12));
  CHECK(t.exposed == Approx(.25));
  CHECK_FALSE(beyond_peak("x", t, e));
  m.makespan = m.makespan * (t.mfu.value() / 2);
  CHECK_THAT(beyond_peak("x", throughput(e, m), e).value(), Catch::StartsWith("x: an MFU of 200 % is more than a "));
  e.cluster.device.peak.clear();
  CHECK_FALSE(throughput(e, m).mfu.has_value());
}

TEST_CASE("With free communication ranks of p equal stages wait (p - 1) / (m + p - 1) of the step") {
  Experiment e = round_numbers(4);
  e.parallelism = {1, 1, 1, 1, 4, 1};
  e.workload.batch = 8;
  for (CollectiveCost& cost : e.calibration.edit().collectives) {
    cost.alpha = Seconds(0);
    cost.beta = SecondsPerByte(0);
  }
  for (const int micro_batches : {4, 8}) {
    Plan plan;
    plan.micro_batches = micro_batches;
    plan.pipeline_schedule = pipeline_schedule("1f1b");
    const PricedSchedule priced = price_plan(e, plan);
    const Metrics m = metrics(*priced.schedule, AnalyticBackend().run(priced));
    // The optimizer's update, which nobody waits in, makes the step longer: within 2 %.
    CHECK(m.waiting / m.makespan == Approx(3. / (micro_batches + 3)).epsilon(.02));
  }
}

TEST_CASE("Memory by kind adds up to the peak of each stage") {
  Experiment e = round_numbers(4);
  e.parallelism = {2, 1, 2, 1, 2, 1};
  e.workload.batch = 4;
  e.model.vocabulary = 50;
  e.workload.extent = Extent::Model;
  Plan plan;
  plan.micro_batches = 4;
  plan.pipeline_schedule = pipeline_schedule("1f1b");
  const PricedSchedule priced = price_plan(e, plan);
  const Timeline timeline = AnalyticBackend().run(priced);
  const auto kinds = memory_by_kind(*priced.schedule, timeline);
  const auto uses = memory_by_class(*priced.schedule, timeline, Arenas::LeftOut);
  REQUIRE(kinds.size() == 2);
  for (std::size_t stage = 0; stage < 2; ++stage) {
    double sum = 0;
    for (const Bytes bytes : kinds[stage]) sum += bytes.value();
    CHECK(sum == uses[stage].peak.value());
  }
  CHECK(kinds[0][static_cast<std::size_t>(MemoryKind::Logits)] == Bytes(0));
  CHECK(kinds[1][static_cast<std::size_t>(MemoryKind::Weights)] > Bytes(0));
}

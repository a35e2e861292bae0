// SPDX-License-Identifier: Apache-2.0
// Schedules built in the order of a program.
#include <catch2/catch.hpp>

#include "models/plan/plan.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/price/price.hpp"
#include "models/time/analytic_backend.hpp"
#include "models/time/memory.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;

namespace {

constexpr auto gpipe = pipeline_schedule("gpipe"), one_f_one_b = pipeline_schedule("1f1b"),
               interleaved = pipeline_schedule("interleaved");

// Four ranks as stages of one rank, every collective and transfer free.
Experiment free_transfers(int stages, int micro_batches, int layers) {
  Experiment e = test::round_numbers(layers);
  e.cluster.nodes = stages;
  e.cluster.gpus_per_node = 1;
  e.parallelism = {.pp = stages};
  e.workload.batch = micro_batches;
  for (CollectiveCost& cost : e.calibration.edit().collectives) cost.alpha = Seconds(0), cost.beta = SecondsPerByte(0);
  return e;
}

Plan pipelined(PipelineSchedule schedule, int micro_batches) {
  Plan plan;
  plan.pipeline_schedule = schedule;
  plan.micro_batches = micro_batches;
  return plan;
}

}  // namespace

TEST_CASE("The schedules built with interleaved stages have that bubble, and update once") {
  const int p = GENERATE(2, 3), v = GENERATE(2, 3);
  const Experiment one = free_transfers(1, 1, p * v);
  const auto whole = std::make_shared<const Schedule>(build_schedule(one, Plan{}));
  const double all_layers = metrics(*whole, AnalyticBackend().run(price(whole, one))).makespan.value();
  const int m = 2 * p;
  const Experiment e = free_transfers(p, m, p * v);
  Plan plan = pipelined(interleaved, m);
  plan.virtual_stages = v;
  const auto schedule = std::make_shared<const Schedule>(build_schedule(e, plan));
  validate(*schedule);
  // A stage's m micro-batches take m (t_f + t_b) of its v layers, t_f + t_b = all_layers / p; then the bubble.
  const double stage = all_layers / p;
  CHECK(metrics(*schedule, AnalyticBackend().run(price(schedule, e))).makespan.value() ==
        Approx(m * stage + (p - 1) * stage / v).epsilon(1e-12));
  CHECK(std::ranges::count(schedule->ops, OpKind::Update, &Op::kind) == p);
}

TEST_CASE("Interleaved stages keep their units in memory") {
  // Layers are alike and each is a virtual stage. The activations of rank r are at most those of its live units, and at
  // least of one less: that which runs last may be freed in parts. A unit alone is that of a step of one layer.
  constexpr int p = 2, v = 2, m = 6;
  const auto activations = [](const Experiment& e, const Plan& plan) {
    const auto schedule = std::make_shared<const Schedule>(build_schedule(e, plan));
    std::vector<double> bytes;
    for (const MemoryUse& use : memory_by_class(*schedule, AnalyticBackend().run(price(schedule, e))))
      bytes.push_back((use.peak - use.persistent).value());
    return bytes;
  };
  Plan plan = pipelined(interleaved, m);
  plan.virtual_stages = v;
  const std::vector<double> many = activations(free_transfers(p, m, p * v), plan);
  // 1F1B on as many ranks as virtual stages keeps 1 unit on its last stage, and 2 on the one before.
  const std::vector<double> plain = activations(free_transfers(p * v, m, p * v), pipelined(one_f_one_b, m));
  const double unit = plain[p * v - 2] - plain[p * v - 1];
  for (int r = 0; r < p; ++r) {
    const int live = 2 * (p - r - 1) + (v - 1) * p + 1;
    CHECK(many[static_cast<std::size_t>(r)] / unit == Approx(live).margin(1));
  }
  CHECK((many[0] - many[1]) / unit == Approx(2).margin(.5));  // rank 0 keeps two more
}

TEST_CASE("The schedules built have that bubble") {
  const PipelineSchedule order = GENERATE(gpipe, one_f_one_b);
  const auto timeline_of = [&](int stages, int micro_batches) {
    const Experiment e = free_transfers(stages, micro_batches, 2 * stages);
    const auto schedule = std::make_shared<const Schedule>(build_schedule(e, pipelined(order, micro_batches)));
    validate(*schedule);
    REQUIRE(schedule->classes.size() == static_cast<std::size_t>(stages));
    return metrics(*schedule, AnalyticBackend().run(price(schedule, e))).makespan.value();
  };
  const double one = timeline_of(1, 1);  // t_f + t_b of two layers; the update is free
  for (const auto& [p, m] : {std::pair{2, 1}, {2, 4}, {3, 2}, {4, 8}})
    CHECK(timeline_of(p, m) == Approx((m + p - 1) * one).epsilon(1e-12));
}

TEST_CASE("1F1B keeps at most p - s micro-batches in the memory of stage s, GPipe all of them") {
  // More micro-batches need no more than p - s do, but for a message that may wait for its turn: 16 x 8 floats.
  constexpr double message = 16 * 8 * 4;
  constexpr int p = 3, m = 6;
  const auto activations = [&](PipelineSchedule order, int micro_batches) {
    const Experiment e = free_transfers(p, micro_batches, p);
    const auto schedule = std::make_shared<const Schedule>(build_schedule(e, pipelined(order, micro_batches)));
    std::vector<double> bytes;
    for (const MemoryUse& use : memory_by_class(*schedule, AnalyticBackend().run(price(schedule, e))))
      bytes.push_back((use.peak - use.persistent).value());
    return bytes;
  };
  const std::vector<double> many = activations(one_f_one_b, m), all = activations(gpipe, m);
  for (int s = 0; s < p; ++s) {
    const auto at = static_cast<std::size_t>(s);
    const double few = activations(one_f_one_b, p - s)[at];
    CHECK(many[at] >= few);
    CHECK(many[at] <= few + message);
    CHECK(all[at] > many[at]);
  }
  CHECK(all[0] / many[0] == Approx(6 / 3).epsilon(.1));
}

#include "models/schedule/builder/pipeline_order.hpp"

#include <catch2/catch.hpp>
#include <map>

#include "models/plan/plan.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/price/price.hpp"
#include "models/time/analytic_backend.hpp"
#include "models/time/memory.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using namespace dovetail::builder;

namespace {

constexpr auto gpipe = PipelineSchedule::Gpipe, one_f_one_b = PipelineSchedule::OneForwardOneBackward;

// "F0 B0 ..."
std::string text(const std::vector<StageUnit>& units) {
  std::string result;
  for (const StageUnit& u : units)
    result += (u.phase == Phase::Forward ? "F" : "B") + std::to_string(u.micro_batch) + " ";
  return result;
}

struct Run {
  double makespan = 0;
  std::vector<int> most_alive;  // by stage: micro-batches between their forward's start and their backward's end
};

// Each unit after its stage's last one and after the unit that its data come from.
Run run(const std::vector<StageUnit>& order, int stages, double forward, double backward) {
  Run r;
  r.most_alive.resize(static_cast<std::size_t>(stages));
  std::vector<double> stage_free(static_cast<std::size_t>(stages));
  std::vector<int> alive(static_cast<std::size_t>(stages));
  std::map<std::tuple<int, int, int>, double> finish;
  for (const StageUnit& u : order) {
    const auto at = static_cast<std::size_t>(u.stage);
    const bool is_forward = u.phase == Phase::Forward;
    const int from = u.stage + (is_forward ? -1 : 1);
    double start = stage_free[at];
    if (from >= 0 && from < stages) start = std::max(start, finish.at({from, is_forward, u.micro_batch}));
    alive[at] += is_forward;
    r.most_alive[at] = std::max(r.most_alive[at], alive[at]);
    alive[at] -= !is_forward;
    stage_free[at] = finish[{u.stage, is_forward, u.micro_batch}] = start + (is_forward ? forward : backward);
    r.makespan = std::max(r.makespan, stage_free[at]);
  }
  return r;
}

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

TEST_CASE("What a stage does: all forwards first, or as few ahead as the stages after it need") {
  CHECK(text(stage_order(gpipe, 0, 3, 4)) == "F0 F1 F2 F3 B3 B2 B1 B0 ");
  CHECK(text(stage_order(one_f_one_b, 0, 3, 4)) == "F0 F1 F2 B0 F3 B1 B2 B3 ");
  CHECK(text(stage_order(one_f_one_b, 1, 3, 4)) == "F0 F1 B0 F2 B1 F3 B2 B3 ");
  CHECK(text(stage_order(one_f_one_b, 2, 3, 4)) == "F0 B0 F1 B1 F2 B2 F3 B3 ");
  CHECK(text(stage_order(one_f_one_b, 0, 4, 2)) == "F0 F1 B0 B1 ");
  CHECK(text(pipeline_order(gpipe, 1, 2, false)) == "F0 F1 ");
}

TEST_CASE("With equal units and free transfers a step takes (m + p - 1)(t_f + t_b) in both orders") {
  for (int p : {1, 2, 3, 4, 8})
    for (int m : {1, 2, 3, 4, 7, 16}) {
      const double expected = (m + p - 1) * (2 + 3);
      CHECK(run(pipeline_order(gpipe, p, m, true), p, 2, 3).makespan == expected);
      const Run r = run(pipeline_order(one_f_one_b, p, m, true), p, 2, 3);
      CHECK(r.makespan == expected);
      for (int s = 0; s < p; ++s) CHECK(r.most_alive[static_cast<std::size_t>(s)] == std::min(m, p - s));
    }
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

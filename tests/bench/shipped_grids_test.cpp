// SPDX-License-Identifier: Apache-2.0
// Shipped grids by prediction alone: whether what they would measure can tell good choices from bad ones, and fits the
// machine and the minutes that it is there for.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "bench/validate/considered_plans.hpp"
#include "bench/validate/grid_device.hpp"
#include "bench/validate/grid_size.hpp"
#include "models/price/build_schedule.hpp"
#include "models/time/analytic_backend.hpp"
#include "models/time/memory.hpp"

using namespace dovetail;
using namespace dovetail::bench;

namespace {

struct Predicted {
  ValidationGrid grid;
  std::vector<Experiment> experiments;  // by size to predict
  std::vector<ValidationCell> cells;
};

// `costs`: of kernels, in place of those of the cluster's calibration.
Predicted predicted(const std::string& name, const FittedCosts& costs = {}) {
  FilesRead files;
  std::vector<std::string> notes;
  Predicted p{load_validation_grid(name, files), {}, {}};
  const ValidationSettings settings;
  Measurements measurements;
  const GridDevice device(p.grid, settings, {}, files, measurements);
  for (GridSize& size : p.grid.predict) {
    if (size.links_to_computation > 0) size.link_slowdown = device.slowdown_of(size, costs);
    p.experiments.push_back(device.experiment_of(size, costs));
    p.cells.push_back(considered_plans(p.grid, size, size_name(size), p.experiments.back(), notes));
  }
  return p;
}

// About those of one core of 2025: 30 Gflop/s in products, 10 in attention, 10 GB/s.
FittedCosts of_a_core(double faster = 1) {
  FittedCosts costs;
  for (const auto& [name, op] : op_kind_names)
    for (const auto& [pass, phase] : phase_names)
      costs.kernels.push_back({op,
                               phase,
                               Seconds(1e-5 / faster),
                               1,
                               WorkRates{SecondsPerFlop(1 / (30e9 * faster)), SecondsPerFlop(1 / (10e9 * faster)),
                                         SecondsPerByte(1 / (10e9 * faster)), SecondsPerByte(1 / (10e9 * faster))},
                               {}});
  return costs;
}

// By system: the plan predicted fastest.
std::map<std::string, const PlanOutcome*> best_of(const ValidationCell& cell) {
  std::map<std::string, const PlanOutcome*> best;
  for (const PlanOutcome& plan : cell.plans)
    if (auto& of = best[plan.system]; of == nullptr || plan.predicted < of->predicted) of = &plan;
  return best;
}

// With 2 rounds, and 3 steps at each size that costs are fitted to.
std::size_t measurements_of(const Predicted& p) {
  std::size_t plans = 3 * p.grid.calibrate.size();
  for (const ValidationCell& cell : p.cells) plans += cell.plans.size();
  return 2 * plans;
}

// Tensors, and scores of all samples at once, at 34 bytes each.
Bytes memory_of(const Experiment& e, const Plan& plan) {
  const PricedSchedule priced = price_plan(e, plan);
  const Timeline timeline = AnalyticBackend().run(priced);
  const double scores = static_cast<double>(e.workload.batch) * e.workload.sequence * e.workload.sequence;
  return memory_use(*priced.schedule, timeline, Arenas::Planned).peak +
         Bytes(34 * scores * e.model.attention.heads / e.parallelism.mp);
}

double links_to_kernels(const Experiment& e) {
  Plan plan;
  plan.scope = Scope::Moe;
  const PricedSchedule priced = price_plan(e, plan);
  Seconds links, kernels;
  for (const OpId i : priced.duration.ids())
    (priced.schedule->ops[i].exchange() != nullptr ? links : kernels) += priced.duration[i];
  return links / kernels;
}

}  // namespace

TEST_CASE("Grid gpu is one node whose experts are spread over its eight GPUs, with Mixtral's own widths") {
  const Predicted p = predicted("gpu");
  for (const Experiment& e : p.experiments) {
    CHECK(e.cluster.nodes == 1);
    CHECK(e.cluster.gpus_per_node == 8);
    CHECK(e.parallelism.mp == 1);
    CHECK(e.parallelism.esp == 1);
    CHECK(e.parallelism.ep == 8);
    CHECK(e.model.hidden == 4096);
    CHECK(e.model.expert_hidden == 14336);
    CHECK(e.model.attention.heads == 32);
    CHECK(e.model.attention.kv_heads == 8);
    CHECK(e.workload.extent == Extent::Layers);
    CHECK(e.overlap == Overlap::Interfering);
  }

  std::size_t smaller = 0, all = 0;
  for (const ValidationCell& cell : p.cells) {
    for (const auto& [system, plan] : best_of(cell)) {
      ++all;
      smaller += std::max(plan->plan.forward_degree, plan->plan.backward_degree) < 16 ? 1 : 0;
      UNSCOPED_INFO(cell.name << ": " << system << " " << plan->plan.forward_degree << " / "
                              << plan->plan.backward_degree);
    }
  }
  CHECK(all == p.cells.size() * p.grid.systems.size());
  CHECK(3 * smaller >= all);
  std::set<bool> bound;
  for (const Experiment& e : p.experiments) bound.insert(links_to_kernels(e) > 1);
  CHECK(bound.size() == 2);  // links and kernels
  CHECK(measurements_of(p) <= 250);
  for (std::size_t i = 0; i < p.cells.size(); ++i)
    for (const PlanOutcome& plan : p.cells[i].plans)
      CHECK(memory_of(p.experiments[i], plan.plan) < Bytes(72e9));  // of 80, the rest for scratch
}

TEST_CASE("Grid gpu-memory measures every way to restore at each size") {
  const Predicted p = predicted("gpu-memory");
  CHECK(p.cells.size() == 18);
  for (std::size_t i = 0; i < p.cells.size(); ++i) {
    std::set<Restore> ways;
    for (const PlanOutcome& plan : p.cells[i].plans) {
      ways.insert(plan.plan.restore);
      CHECK(memory_of(p.experiments[i], plan.plan) < Bytes(72e9));
    }
    CHECK(ways == std::set{Restore::Keep, Restore::S1, Restore::S2, Restore::S3, Restore::S4});
  }
  CHECK(measurements_of(p) <= 230);
}

TEST_CASE(
    "Grid planners asks every planner, in three regimes whose best plans lie mostly inside the range of degrees") {
  const Predicted p = predicted("planners", of_a_core());
  std::set<std::string> asked, regimes;
  std::size_t inside = 0, all = 0;
  for (std::size_t i = 0; i < p.cells.size(); ++i) {
    for (const ChoiceOutcome& choice : p.cells[i].choices) asked.insert(choice.planner);
    const double ratio = links_to_kernels(p.experiments[i]);
    CHECK(ratio == Approx(p.grid.predict[i].links_to_computation).epsilon(1e-6));
    regimes.insert(ratio > 1.5 ? "links" : ratio < 1 / 1.5 ? "computation" : "mixed");
    for (const auto& [system, plan] : best_of(p.cells[i])) {
      ++all;
      const auto [least, most] = std::minmax(plan->plan.forward_degree, plan->plan.backward_degree);
      if (least > 1 && most < 16) ++inside;
    }
  }
  CHECK(asked == std::set<std::string>{"dovetail", "equation_10", "exhaustive", "fixed", "four_case",
                                       "granularity_search", "memory_reuse", "parallelism_router", "shadowing",
                                       "tutel_adaptive"});
  CHECK(regimes.size() == 3);
  CHECK(3 * inside >= all);
  CHECK(p.grid.one_rank);
  CHECK(p.grid.online.size() == 5);
}

TEST_CASE("A regime does not depend on how fast kernels are") {
  FilesRead files;
  const ValidationGrid grid = load_validation_grid("planners", files);
  const ValidationSettings settings;
  Measurements measurements;
  const GridDevice device(grid, settings, {}, files, measurements);
  GridSize size = grid.predict.front();
  CHECK(size_parts(size).back() == "links 0.25 x computation");
  const double slowdown = device.slowdown_of(size, of_a_core());
  CHECK(device.slowdown_of(size, of_a_core(4)) == Approx(slowdown / 4));
  size.links_to_computation = 1;
  CHECK(device.slowdown_of(size, of_a_core()) == Approx(4 * slowdown));
  CHECK(size_parts(size).back() == "links 1 x computation");
}

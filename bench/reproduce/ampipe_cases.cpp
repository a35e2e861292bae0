// SPDX-License-Identifier: Apache-2.0
// AMPipe's speed-ups on four A10G: which of its cases fit the memory, how much faster their blocks get by chunks, how
// that depends on the degree, and what its closed form expects.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bench/reproduce/ampipe_formula.hpp"
#include "bench/reproduce/tables.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "models/price/transforms.hpp"
#include "models/schedule/op_table.hpp"
#include "models/time/analytic_backend.hpp"

namespace dovetail::bench {
namespace {

bool ends_step(OpKind kind) {
  return entry_of(kind).part == OpPart::StepEnd;
}

// Forward and backward time of the blocks alone, as the paper has it.
double block_seconds(const Experiment& experiment, const Plan& plan) {
  std::vector<double> scratch;
  return analytic_makespan(without_cost_of(price_plan(experiment, plan), ends_step), scratch).value();
}

Plan with_degree(Plan plan, int degree) {
  plan.forward_degree = plan.backward_degree = degree;
  return plan;
}

double busy(const SystemResult& result, std::string_view stream) {
  double sum = 0;
  for (const StreamUse& use : result.metrics.streams)
    if (use.name == stream) sum += use.busy.value();
  return sum;
}

// Seconds of one pass of all blocks that nothing overlaps; A, C, M, O in appendix C.
struct PassCost {
  double attention = 0, all_to_all = 0, experts = 0, other = 0;  // all_to_all: of both
  double sequential() const { return attention + all_to_all + experts + other; }
  double expected(int p) const { return ampipe_formula({attention, all_to_all / 2, experts}, p); }
};

// Forward, backward.
std::array<PassCost, 2> pass_costs(const Experiment& experiment, const Plan& plan) {
  const PricedSchedule priced = without_cost_of(price_plan(experiment, plan), ends_step);
  std::array<PassCost, 2> passes;
  for (const OpId i : priced.duration.ids()) {
    const Op& op = priced.schedule->ops[i];
    PassCost& pass = passes[op.phase == Phase::Forward ? 0 : 1];
    double& sum = op.kind == OpKind::Attention       ? pass.attention
                  : op.kind == OpKind::Expert        ? pass.experts
                  : entry_of(op.kind).exchanges_rows ? pass.all_to_all
                                                     : pass.other;
    sum += priced.duration[i].value();
  }
  return passes;
}

struct Case {
  bool fits = false;
  double gain = 0;                  // percent over the baseline
  double overhead = 0;              // of the compute stream's work by chunking, percent
  double expected = 0;              // gain by the closed form
  bool best_is_ampipe = false;      // of both systems in all degrees
  bool best_is_own_degree = false;  // the system's own degree is the best of its degrees
};

Case run_case(const Experiment& e, const System& baseline, const System& system, const System& rival,
              std::span<const int> degrees) {
  const SystemResult base = run_system(e, baseline), chunked = run_system(e, system);
  const double before = block_seconds(e, baseline.plan), own = block_seconds(e, system.plan);
  double expected = 0, sequential = 0, best = own, rivals = 1e300;
  for (const PassCost& pass : pass_costs(e, baseline.plan)) {
    sequential += pass.sequential();
    expected += pass.expected(system.plan.forward_degree);
  }
  for (int degree : degrees) {
    best = std::min(best, block_seconds(e, with_degree(system.plan, degree)));
    rivals = std::min(rivals, block_seconds(e, with_degree(rival.plan, degree)));
  }
  return {base.feasible && chunked.feasible,
          100 * (before / own - 1),
          100 * (busy(chunked, "compute") / busy(base, "compute") - 1),
          100 * (sequential / expected - 1),
          best < rivals,
          own <= best};
}

// Every model, sequence, batch and capacity factor of the settings.
std::vector<Case> all_cases(const JsonReader& settings, int layers, FilesRead& files) {
  const System baseline = load_system(settings.string("baseline"), files);
  const System system = load_system(settings.string("system"), files);
  const System rival = load_system(settings.string("rival"), files);
  const std::vector<int> degrees = read_integer_axis(settings.at("degrees"));
  std::vector<Case> cases;
  for (const std::string& model : read_strings(settings.at("models"))) {
    Experiment e = read_experiment(settings.at("experiment"), files,
                                   {"model=" + model, fmt::format("workload.layers={}", layers)});
    for (int sequence : read_integer_axis(settings.at("sequences")))
      for (int batch : read_integer_axis(settings.at("batches")))
        for (double factor : read_axis(settings.at("capacity_factors"))) {
          e.workload.sequence = sequence;
          e.workload.batch = batch;
          e.workload.capacity_factor = factor;
          cases.push_back(run_case(e, baseline, system, rival, degrees));
        }
  }
  return cases;
}

}  // namespace

Recomputed ampipe_cases(const JsonReader& settings, FilesRead& files) {
  Recomputed result;
  for (int layers : read_integer_axis(settings.at("layers"))) {
    std::vector<Case> fitting = all_cases(settings, layers, files);
    std::erase_if(fitting, [](const Case& each) { return !each.fits; });
    const auto put = [&](const char* what, double value) {
      result.values[fmt::format("{} layers: {}", layers, what)] = value;
    };
    const auto all = [&](auto member) {
      std::vector<double> values;
      for (const Case& each : fitting) values.push_back(static_cast<double>(each.*member));
      return values;
    };
    const auto share = [&](auto holds) {
      const auto count = static_cast<double>(std::ranges::count_if(fitting, holds));
      return fitting.empty() ? 0 : 100 * count / static_cast<double>(fitting.size());
    };
    const std::vector<double> gains = all(&Case::gain);
    put("cases that fit 24 GiB", static_cast<double>(fitting.size()));
    put("mean gain", mean(gains));
    put("largest gain", gains.empty() ? 0 : std::ranges::max(gains));
    put("most work added by chunking", gains.empty() ? 0 : std::ranges::max(all(&Case::overhead)));
    put("cases whose best degree is 4", share([](const Case& c) { return c.best_is_own_degree; }));
    put("cases where the best of AMPipe is ahead of the best of Tutel",
        share([](const Case& c) { return c.best_is_ampipe; }));
    put("cases where the closed form expects more", share([](const Case& c) { return c.expected > c.gain; }));
    put("mean gain by the closed form", mean(all(&Case::expected)));
  }
  return result;
}

}  // namespace dovetail::bench

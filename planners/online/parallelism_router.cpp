// SPDX-License-Identifier: Apache-2.0
#include "planners/online/parallelism_router.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/plan/expert_sharding.hpp"
#include "planners/task/contest.hpp"

namespace dovetail::planners {
namespace {

// Chooses the sharding alone, by sizes; the evaluator tells what that costs against the best of all.
class Router final : public Planner {
 public:
  std::string_view name() const override { return "parallelism_router"; }
  std::string_view chooses() const override { return "how ranks share an expert"; }

  PlanChoice choose(const PlanningTask& task, const Evaluator& evaluate) const override {
    Contest contest(evaluate);
    const std::vector<Plan> plans = sharding_plans(task.experiment, task.base);
    std::vector<Bytes> sizes;
    std::string reason;
    for (const Plan& plan : plans) {
      sizes.push_back(moved_size(task.experiment, plan));
      contest.propose(plan);
      reason += fmt::format("{}{} {:.3g} MiB", reason.empty() ? "" : ", ", sharding_name(plan),
                            sizes.back().value() / (1 << 20));
    }
    PlanChoice choice = contest.finish(name(), "rows in one all-to-all and gathered weights of a layer: " + reason);
    choice.plan = plans[static_cast<std::size_t>(std::ranges::min_element(sizes) - sizes.begin())];
    choice.report.runner_up.reset();  // which would be by degree
    choice.report.regret = contest.time_of(choice.plan) / contest.best_time() - 1;
    return choice;
  }
};

}  // namespace

ParallelismRouter::ParallelismRouter(OnlineSettings settings) : OnlinePlanner(std::move(settings)) {
  const std::size_t lines = this->settings().lines.size();
  if (lines != strategies().size())
    throw InputError(
        fmt::format("parallelism_router: {} lines for {} strategies, expected one each", lines, strategies().size()));
}

std::size_t ParallelismRouter::pick(double load) {
  const std::vector<LoadLine>& lines = settings().lines;
  return static_cast<std::size_t>(
      std::ranges::min_element(lines, {}, [&](const LoadLine& line) { return line.at(load); }) - lines.begin());
}

std::vector<Plan> sharding_plans(const Experiment& experiment, const Plan& base) {
  const int esp = experiment.parallelism.esp;
  if (esp == 1) return {base};
  std::vector<Plan> plans;
  const auto add = [&](ExpertSharding sharding, int repeats) {
    Plan plan = base;
    plan.expert_sharding = sharding;
    plan.sharding_repeats = repeats;
    if (!refusal(plan, experiment)) plans.push_back(plan);
  };
  add(ExpertSharding::Ep, 0);
  add(ExpertSharding::EpDp, 0);
  for (int repeats = 2; repeats <= esp; ++repeats)
    if (esp % repeats == 0) add(ExpertSharding::EpMp, repeats);
  if (plans.empty()) throw *refusal(base, experiment);
  return plans;
}

std::string sharding_name(const Plan& plan) {
  const std::string name(name_in(expert_sharding_names, plan.expert_sharding));
  return plan.sharding_repeats == 0 ? name : fmt::format("{} {}", name, plan.sharding_repeats);
}

Bytes moved_size(const Experiment& experiment, const Plan& plan) {
  const LayerVolumes v = layer_volumes(experiment, plan);
  const ChunkRange all{{0, v.capacity}};
  std::int64_t elements = v.all_to_all_elements(all);
  if (v.weight_shards > 1) elements += v.local_experts * v.worked_parameters();
  if (v.esp > 1) elements += v.gathered_elements(all);
  return static_cast<double>(elements) * size_of(experiment.workload.dtype);
}

LoadLine size_line(const Experiment& experiment, const Plan& plan) {
  // Two factors at which no expert can be full: k f T / E <= T.
  constexpr double low = .5, high = 1;
  Experiment e = experiment;
  e.workload.capacity_factor = low;
  const Bytes at_low = moved_size(e, plan);
  e.workload.capacity_factor = high;
  const Bytes per_load = (moved_size(e, plan) - at_low) / (high - low);
  return {at_low - per_load * low, per_load};
}

const Planner& parallelism_router() {
  static const Router planner;
  return planner;
}

}  // namespace dovetail::planners

#include "planners/online/parallelism_router.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/plan/expert_sharding.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "models/schedule/op_table.hpp"
#include "planners/closed_form/layer_times.hpp"
#include "planners/contest.hpp"

namespace dovetail::planners {
namespace {

bool moves_for_experts(const Op& op) {
  return op.collective() != Collective::None && entry_of(op.kind).part == OpPart::Experts;
}

PricedSchedule priced(const Experiment& experiment, const Plan& plan) {
  return price_plan(experiment, sequential_plan(plan));
}

double moved_mebibytes(const PricedSchedule& p) {
  double bytes = 0;
  for (const Op& op : p.schedule->ops)
    if (moves_for_experts(op)) bytes += op.message().value();
  return bytes / (1 << 20);
}

Seconds link_time(const PricedSchedule& p) {
  Seconds sum;
  for (const OpId i : p.schedule->ops.ids())
    if (moves_for_experts(p.schedule->ops[i])) sum += p.duration[i];
  return sum;
}

// Chooses the sharding alone, by time on the links; the evaluator tells what that costs against the best of all.
class Router final : public Planner {
 public:
  std::string_view name() const override { return "parallelism_router"; }

  PlanChoice choose(const PlanningTask& task, const Evaluator& evaluate) const override {
    Contest contest(evaluate);
    const std::vector<Plan> plans = sharding_plans(task.experiment, task.base);
    std::vector<Seconds> links;
    std::string reason;
    for (const Plan& plan : plans) {
      const PricedSchedule p = priced(task.experiment, plan);
      links.push_back(link_time(p));
      contest.propose(plan);
      reason += fmt::format("{}{} {:.3g} ms ({:.3g} MiB)", reason.empty() ? "" : ", ", sharding_name(plan),
                            1e3 * links.back().value(), moved_mebibytes(p));
    }
    PlanChoice choice = contest.finish(name(), "on the links of a step: " + reason);
    choice.plan = plans[static_cast<std::size_t>(std::ranges::min_element(links) - links.begin())];
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

Seconds link_time(const Experiment& experiment, const Plan& plan) {
  return link_time(priced(experiment, plan));
}

LoadLine link_line(const Experiment& experiment, const Plan& plan) {
  // Two factors at which no expert can be full: k f T / E <= T.
  constexpr double low = .5, high = 1;
  Experiment e = experiment;
  e.workload.capacity_factor = low;
  const Seconds at_low = link_time(e, plan);
  e.workload.capacity_factor = high;
  const Seconds per_load = (link_time(e, plan) - at_low) / (high - low);
  return {at_low - per_load * low, per_load};
}

const Planner& parallelism_router() {
  static const Router planner;
  return planner;
}

}  // namespace dovetail::planners

#include "reports/data/validation_goals.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "reports/data/validation_statistics.hpp"

namespace dovetail::reports {
namespace {

constexpr double most_error = .03, most_regret = .01;

double difference(const OpTimes& op) {
  return std::fabs((op.measured - op.predicted).value());
}

bool same_but_restore(const PlanOutcome& a, const PlanOutcome& b) {
  Plan plan = b.plan;
  plan.restore = a.plan.restore;
  plan.buffers = a.plan.buffers;
  return a.system == b.system && a.plan == plan;
}

}  // namespace

std::vector<Goal> goals(const Validation& validation) {
  double regret = std::numeric_limits<double>::quiet_NaN();
  for (const PlannerRegret& r : planner_regrets(validation)) regret = std::fmax(regret, r.mean);
  return {{"mean absolute error of predicted steps", most_error, mean_error(validation).value},
          {"mean regret of the worst planner", most_regret, regret}};
}

std::vector<OpTimes> op_differences(const Validation& validation) {
  std::vector<OpTimes> all;
  for (const ValidationCell& cell : validation.cells)
    for (const PlanOutcome& plan : cell.plans)
      for (const OpTimes& op : plan.ops) {
        auto of = std::ranges::find_if(all, [&](const OpTimes& o) { return o.op == op.op && o.phase == op.phase; });
        if (of == all.end()) of = all.insert(of, {op.op, op.phase, op.emulated, {}, {}});
        of->predicted += op.predicted;
        of->measured += op.measured;
      }
  std::ranges::stable_sort(all, std::greater(), difference);
  return all;
}

const OpTimes* largest_difference(const PlanOutcome& plan) {
  const auto largest = std::ranges::max_element(plan.ops, {}, difference);
  return largest == plan.ops.end() ? nullptr : &*largest;
}

std::vector<RestoreGroup> restore_groups(const Validation& validation) {
  std::vector<RestoreGroup> groups;
  for (const ValidationCell& cell : validation.cells)
    for (const PlanOutcome& plan : cell.plans) {
      auto of = std::ranges::find_if(
          groups, [&](const RestoreGroup& g) { return g.cell == &cell && same_but_restore(*g.plans.front(), plan); });
      if (of == groups.end()) of = groups.insert(of, {&cell, {}});
      of->plans.push_back(&plan);
    }
  std::erase_if(groups, [](const RestoreGroup& g) { return g.plans.size() < 2; });
  for (RestoreGroup& group : groups)
    std::ranges::sort(group.plans, {}, [](const PlanOutcome* p) { return p->plan.restore; });
  return groups;
}

}  // namespace dovetail::reports

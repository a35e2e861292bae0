// SPDX-License-Identifier: Apache-2.0
#include "reports/data/validation_goals.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string_view>

#include "models/base/names.hpp"
#include "reports/data/validation_statistics.hpp"

namespace dovetail::reports {
namespace {

constexpr double most_error = .03, most_regret = .01, most_of_ours = .02;

double difference(const OpTimes& op) {
  return std::fabs((op.measured - op.predicted).value());
}

bool same_but_restore(const PlanOutcome& a, const PlanOutcome& b) {
  Plan plan = b.plan;
  plan.restore = a.plan.restore;
  plan.buffers = a.plan.buffers;
  return a.plan == plan;
}

}  // namespace

std::vector<Goal> goals(const Validation& validation) {
  double regret = std::numeric_limits<double>::quiet_NaN();
  std::vector<Goal> all{{"mean absolute error of predicted steps", most_error, mean_error(validation).value}};
  for (const PlannerRegret& r : planner_regrets(validation)) {
    regret = std::fmax(regret, r.mean.value);
    if (r.planner == "dovetail")
      all.push_back({"regret of our planner against all measured plans", most_of_ours, r.behind_all.value});
  }
  all.push_back({"mean regret of the worst planner", most_regret, regret});
  return all;
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

std::vector<PointError> point_errors(const DeviceStudy& device) {
  std::vector<PointError> errors;
  const auto add = [&](const std::string& what, double error) {
    auto of = std::ranges::find(errors, what, &PointError::what);
    if (of == errors.end()) of = errors.insert(of, {what, 0, 0, 0});
    ++of->points;
    of->mean += std::fabs(error);
    if (std::fabs(error) > std::fabs(of->worst)) of->worst = error;
  };
  for (const std::string_view last : {"", "all"})
    for (const DevicePoint& p : device.points)
      if (p.predicted)
        add(std::string(last.empty() ? name_in(device_work_names, p.what) : last), *p.predicted / p.median - 1);
  for (PointError& e : errors) e.mean /= static_cast<double>(e.points);
  return errors;
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
  const auto way = [](const PlanOutcome* p) { return p->plan.restore; };
  for (RestoreGroup& group : groups) std::ranges::stable_sort(group.plans, {}, way);
  std::erase_if(groups, [&](const RestoreGroup& g) { return way(g.plans.front()) == way(g.plans.back()); });
  return groups;
}

}  // namespace dovetail::reports

// SPDX-License-Identifier: Apache-2.0
// Exact makespans choose; the paper's cases say why.
#include "planners/catalog/four_case_planner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <vector>

#include "models/base/errors.hpp"
#include "planners/closed_form/gradient_partition.hpp"
#include "planners/task/contest.hpp"

namespace dovetail::planners {
namespace {

bool is_training(const PlanningTask& task) {
  return task.experiment.workload.phases == Phases::Training;
}

// Equal chunks are searched by the formula; chunks that differ by a row each have a time of their own.
int fastest_degree(const MoeTimes& moe, CommStreams streams, std::int64_t capacity, std::span<const int> degrees) {
  if (std::ranges::all_of(degrees, [&](int degree) { return capacity % degree == 0; }))
    return best_degree(moe, streams, Seconds(0), degrees).degree;
  return *std::ranges::min_element(degrees, {},
                                   [&](int degree) { return chunked_makespan(moe, streams, capacity, degree); });
}

Plan exact_plan(const PlanningTask& task, const LayerTimes& t, std::span<const int> degrees) {
  const CommStreams streams = task.base.comm_streams;
  const int forward = fastest_degree(t.forward.moe, streams, t.capacity, degrees);
  const Plan plan = with_degrees(task.base, forward, fastest_degree(t.backward.moe, streams, t.capacity, degrees));
  if (!chooses_slices(task)) return plan;
  return with_partition(plan, partition_gradients(t, streams, degrees));
}

// This plan's degrees, once per way to slice its gradients.
void add_slices(std::vector<Plan>& plans, const PlanningTask& task, const LayerTimes& times, const Plan& plan) {
  if (!chooses_slices(task)) return plans.push_back(plan);
  const std::array degrees{plan.backward_degree};
  plans.push_back(with_partition(plan, partition_gradients(times, plan.comm_streams, degrees)));
  plans.push_back(with_slices_of(plan, GradSync::WithDense, times));
  plans.push_back(with_slices_of(plan, GradSync::After, times));
}

// How far the paper's closed form is from the exact one, for equal chunks on co-scheduled streams.
double paper_error(const MoeTimes& moe, int degree, Seconds all_reduce) {
  return paper_case(moe, degree, all_reduce).time / exact_makespan(moe, CommStreams::InterIntra, degree, all_reduce) -
         1;
}

// Says what limits a layer. The paper's cases are for co-scheduled all-to-alls and gathers, and are named only there.
std::string describe_layer(const MoeTimes& moe, CommStreams streams, int degree, Seconds all_reduce) {
  if (streams == CommStreams::InterIntra) {
    const int number = paper_case(moe, degree, all_reduce).number;
    return fmt::format("case {}, {}", number, describe_case(number));
  }
  const bool link = link_time(moe, streams, degree) + all_reduce >= exact_makespan(moe, streams, degree, all_reduce);
  return link ? "communication fills its stream" : std::string(describe_case(2));
}

std::string describe_forward(const Plan& plan, const LayerTimes& times) {
  return fmt::format("forward degree {}: {}", plan.forward_degree,
                     describe_layer(times.forward.moe, plan.comm_streams, plan.forward_degree, Seconds(0)));
}

std::string describe_backward(const Plan& plan, const LayerTimes& times) {
  std::map<std::string, int> layers_limited;
  for (int layer = 0; layer < times.layers(); ++layer)
    if (times.is_moe(layer))
      ++layers_limited[describe_layer(times.backward.moe, plan.comm_streams, plan.backward_degree_of(layer),
                                      carried(plan, times, layer))];
  const auto moe_layers = std::ranges::count(times.moe, true);
  std::string text;
  for (const auto& [limit, layers] : layers_limited) {
    text += fmt::format("{}{}", text.empty() ? "" : "; ", limit);
    if (layers_limited.size() > 1) text += fmt::format(" ({} of {} layers)", layers, moe_layers);
  }
  const std::string degrees = describe_degrees(plan);
  return fmt::format("backward degree {}: {}", degrees.substr(degrees.find('/') + 2), text);
}

std::string describe_slices(const Plan& plan, const LayerTimes& times) {
  std::array<double, window_names.size()> share{};
  for (const GradientSlice& slice : plan.gradient_slices)
    share[static_cast<std::size_t>(slice.window)] +=
        100.0 * static_cast<double>(slice.elements) / static_cast<double>(times.elements_after(-1));
  return fmt::format("gradients {:.0f} % beside experts, {:.0f} % beside attention, {:.0f} % after the step", share[0],
                     share[1], share[2]);
}

// The paper's forward time, and how far from the exact one its times are at most.
std::string describe_paper(const Plan& plan, const LayerTimes& times) {
  double worst = paper_error(times.forward.moe, plan.forward_degree, Seconds(0));
  for (int layer = 0; layer < times.layers(); ++layer) {
    if (!times.is_moe(layer)) continue;
    const double error = paper_error(times.backward.moe, plan.backward_degree_of(layer), carried(plan, times, layer));
    if (std::abs(error) > std::abs(worst)) worst = error;
  }
  const double forward = paper_case(times.forward.moe, plan.forward_degree, Seconds(0)).time.value();
  return fmt::format("the paper's T is {:.3f} ms forward, {}", 1e3 * forward,
                     std::abs(worst) < 1e-9 ? "exact for equal chunks"
                                            : fmt::format("off by up to {:.1f} % for equal chunks", 100 * worst));
}

}  // namespace

bool chooses_slices(const PlanningTask& task) {
  return task.base.grad_sync == GradSync::Partitioned && is_training(task);
}

Plan with_degrees(Plan plan, int forward, int backward) {
  plan.forward_degree = forward;
  plan.backward_degree = backward;
  plan.backward_degrees.clear();
  return plan;
}

Seconds carried(const Plan& plan, const LayerTimes& times, int layer) {
  Seconds sum;
  for (const GradientSlice& slice : plan.gradient_slices)
    if (slice.window == Window::Moe && slice.layer == layer)
      sum += times.all_reduce_alpha + times.all_reduce_per_element * static_cast<double>(slice.elements);
  return sum;
}

PlanChoice FourCasePlanner::choose(const PlanningTask& task, const Evaluator& evaluate) const {
  if (task.base.scope == Scope::Block)
    throw InputError(Location{"", 0, 0, "/plan/scope"},
                     fmt::format("block contradicts the planner {}, whose closed forms are of unchunked attention; "
                                 "expected the planner fixed or exhaustive",
                                 name()));
  const std::vector<int> degrees = allowed_degrees(task);
  const LayerTimes times = layer_times(task.experiment, task.base);
  Contest contest(task, evaluate);
  const bool tied = task.choices.tie_degrees;
  const Plan solved = method_.solve(task, times, degrees);
  std::vector<Plan> plans;
  if (!tied) plans.push_back(solved);
  if (!tied && method_.competes)
    add_slices(plans, task, times,
               with_degrees(task.base, solved.forward_degree,
                            fastest_degree(times.backward.moe, solved.comm_streams, times.capacity, degrees)));
  const std::vector<int> for_all = method_.competes ? degrees
                                   : tied           ? std::vector{solved.forward_degree, solved.backward_degree}
                                                    : std::vector<int>{};
  for (int degree : for_all) add_slices(plans, task, times, with_degrees(task.base, degree, degree));
  contest.propose(plans);

  const Plan& best = contest.best();
  const bool dense = task.experiment.model.dense();
  std::string reason = dense ? "no experts, so no degrees" : describe_forward(best, times);
  if (!dense && is_training(task)) reason += "; " + describe_backward(best, times);
  if (chooses_slices(task)) reason += "; " + describe_slices(best, times);
  if (!dense && best.comm_streams == CommStreams::InterIntra) reason += "; " + describe_paper(best, times);
  if (!tied && best != solved)
    reason += fmt::format("; by evaluation better than the closed forms' choice of {}", describe_degrees(solved));
  return contest.finish(name(), std::move(reason));
}

const Planner& four_case() {
  static const FourCasePlanner planner({"four_case", exact_plan});
  return planner;
}

}  // namespace dovetail::planners

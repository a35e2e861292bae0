// SPDX-License-Identifier: Apache-2.0
#include "planners/search/plan_space.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "models/plan/collectives/all_to_all.hpp"
#include "models/plan/expert_sharding.hpp"
#include "models/price/calibration.hpp"
#include "models/question/volumes.hpp"
#include "planners/closed_form/gradient_partition.hpp"
#include "planners/task/contest.hpp"
#include "planners/task/pipelines.hpp"

namespace dovetail::planners {
namespace {

using Knobs = std::span<const Knob>;

// The settings that leave what the user has fixed; the base's own where there is none.
Axis open_settings(const PlanningTask& task, Axis axis) {
  std::erase_if(axis, [&](const Setting& set) {
    Plan plan = task.base;
    set(plan);
    return !holds(task, plan);
  });
  if (axis.empty()) axis.push_back([](Plan&) {});
  return axis;
}

// Every built value of a knob that is searched alone.
Axis values(const Knob& knob) {
  if (const FlagKnob* flag = std::get_if<FlagKnob>(&knob.type))
    return {[flag = *flag](Plan& plan) { plan.*flag.member = false; },
            [flag = *flag](Plan& plan) { plan.*flag.member = true; }};
  Axis axis;
  for (const int value : built_values(knob))
    axis.push_back([set = std::get<ChoiceKnob>(knob.type).set, value](Plan& plan) { set(plan, value); });
  return axis;
}

// A setting that can never be built, or is the same as the one before it, would only be counted.
Axis exchanges(const PlanningTask& task, Knobs table) {
  Axis axis;
  const auto add = [&](AllToAll algorithm, AllToAllImplementation implementation) {
    axis.push_back([=](Plan& plan) {
      plan.all_to_all = algorithm;
      plan.all_to_all_implementation = implementation;
      if (algorithm == AllToAll::Linear || algorithm == AllToAll::NodeDeduplicated) plan.all_to_all_levels.clear();
      if (algorithm == AllToAll::NodeDeduplicated) plan.scores_at = ScoresAt::Experts;  // which it cannot do without
    });
  };
  add(AllToAll::Linear, AllToAllImplementation::PointToPoint);
  for (const auto algorithm : built_values<AllToAll>("all_to_all", table)) {
    if (algorithm == AllToAll::Linear) continue;
    Plan plan = task.base;
    plan.all_to_all = algorithm;
    plan.split = Split::Capacity;
    if (algorithm == AllToAll::NodeDeduplicated) plan.scores_at = ScoresAt::Experts;
    if (refusal(plan, task.experiment)) continue;
    if (deduplicating_ranks(plan, task.experiment) > 0) add(algorithm, AllToAllImplementation::PointToPoint);
    if (all_to_all_steps(plan, task.experiment).size() < 2) continue;
    for (const auto implementation : built_values<AllToAllImplementation>("all_to_all_implementation", table))
      add(algorithm, implementation);
  }
  return axis;
}

// The protocol that costs less for each op, where the calibration has costs of both.
Axis protocols(const PlanningTask& task, Knobs) {
  Plan by_size;
  by_size.protocol = Protocol::BySize;
  const Protocol best = refusal(by_size, task.experiment) ? Protocol::Simple : Protocol::BySize;
  return {[best](Plan& plan) { plan.protocol = best; }};
}

Axis shardings(const PlanningTask& task, Knobs) {
  Axis axis;
  const auto add = [&](ExpertSharding sharding, int repeats) {
    axis.push_back([=](Plan& plan) {
      plan.expert_sharding = sharding;
      plan.sharding_repeats = repeats;
    });
  };
  const int esp = task.experiment.parallelism.esp;
  add(ExpertSharding::Ep, 0);
  if (esp > 1) add(ExpertSharding::EpDp, 0);
  for (int repeats = 2; repeats <= esp; ++repeats)
    if (esp % repeats == 0) add(ExpertSharding::EpMp, repeats == esp ? 0 : repeats);
  return axis;
}

Axis pipeline_axis(const PlanningTask& task, Knobs) {
  Axis axis;
  if (task.experiment.parallelism.pp == 1) return axis;
  for (const Pipeline pipeline : pipelines(task)) axis.push_back([=](Plan& plan) { set_pipeline(plan, pipeline); });
  return axis;
}

// Every scope in which something of a micro-batch overlaps.
Axis scopes(const PlanningTask& task, Knobs table) {
  Axis axis;
  const auto add = [&](Scope scope, Split split, int group) {
    axis.push_back([=](Plan& plan) {
      plan.scope = scope;
      plan.split = split;
      plan.peer_group = group;
    });
  };
  for (const auto scope : built_values<Scope>("scope", table))
    if (scope != Scope::Layer && scope != Scope::Batch) add(scope, Split::Capacity, Plan{}.peer_group);
  for (int group = 1; group < task.experiment.parallelism.ep; group *= 2) add(Scope::Moe, Split::Peers, group);
  return axis;
}

Axis streams(const PlanningTask& task, Knobs) {
  const Parallelism& p = task.experiment.parallelism;
  std::vector<CommStreams> all{CommStreams::One, CommStreams::DispatchCombine};
  if (p.mp > 1 || p.esp > 1) all.push_back(CommStreams::InterIntra);  // else nothing would be on the second stream
  if (p.mp > 1) all.push_back(CommStreams::MpApart);
  if (p.mp > 1 || p.dp > 1 || p.edp > 1) all.push_back(CommStreams::ByGroup);
  Axis axis;
  for (const CommStreams streams : all) axis.push_back([streams](Plan& plan) { plan.comm_streams = streams; });
  return axis;
}

// Knobs of which not every value makes sense, or makes sense alone: the alternatives of each and of those with it.
struct Joint {
  std::string_view first;  // of the knobs, in the order of the table
  Axis (*axis)(const PlanningTask& task, Knobs table);
};
constexpr std::array joints{
    Joint{"scope", scopes},       Joint{"comm_streams", streams},      Joint{"all_to_all", exchanges},
    Joint{"protocol", protocols}, Joint{"expert_sharding", shardings}, Joint{"pipeline_schedule", pipeline_axis}};

// The alternatives that the space has for a knob, and for those that go with it.
std::optional<Axis> alternatives(const Knob& knob, const PlanningTask& task, Knobs table) {
  if (knob.search == KnobSearch::Alone) return open_settings(task, values(knob));
  const auto joint = std::ranges::find(joints, knob.name, &Joint::first);
  if (joint == joints.end()) return std::nullopt;
  return open_settings(task, joint->axis(task, table));
}

Axis restores(const PlanningTask& task, Knobs table, bool keeping) {
  Axis axis;
  const bool training = task.experiment.workload.phases == Phases::Training;
  for (const auto restore : built_values<Restore>("restore", table))
    for (const auto buffers : built_values<Buffers>("buffers", table)) {
      const bool keeps = restore == Restore::Keep && buffers == Buffers::PerChunk;
      if ((offloads_input(restore) || offloads_hidden(restore)) && !task.experiment.calibration->copy) continue;
      if (keeps != keeping || (training ? !keeps && restore == Restore::Keep : restore != Restore::Keep)) continue;
      axis.push_back([restore, buffers](Plan& plan) {
        plan.restore = restore;
        plan.buffers = buffers;
      });
    }
  std::erase_if(axis, [&](const Setting& set) {
    Plan plan = task.base;
    set(plan);
    return !holds(task, plan);
  });
  return axis;
}

bool reduces(const Experiment& e) {
  return e.workload.phases == Phases::Training && (e.parallelism.dp > 1 || e.parallelism.edp > 1);
}

// "scopes, orders and degrees": what is searched, class by class.
std::string searched(Knobs table) {
  std::vector<std::string_view> words;
  for (const auto& [name, group] : knob_class_names)
    for (const Knob& knob : table)
      if (knob.group == group && !knob.searched_as.empty()) words.push_back(knob.searched_as);
  const std::string_view last = words.back();
  words.pop_back();
  return fmt::format("{} and {}", fmt::join(words, ", "), last);
}

void open_all_knobs(const PlanningTask& task, Knobs table, PlanSpace& space) {
  for (const Knob& knob : table)
    if (std::optional<Axis> axis = alternatives(knob, task, table))
      (knob.group == KnobClass::Arrangement ? space.arrangements : space.volumes).push_back(*std::move(axis));
  space.keeping = restores(task, table, true);
  space.restoring = restores(task, table, false);
  if (space.keeping.empty() && space.restoring.empty()) space.keeping.push_back([](Plan&) {});
  space.grad_syncs.clear();
  for (const auto sync : built_values<GradSync>("grad_sync", table)) {
    Plan plan = task.base;
    plan.grad_sync = sync;
    if (holds(task, plan)) space.grad_syncs.push_back(sync);
  }
  if (space.grad_syncs.empty()) space.grad_syncs = {task.base.grad_sync};
  if (!reduces(task.experiment)) space.grad_syncs.resize(1);
  space.by_layer = !space.tied && space.backward_degrees.size() > 1;
  space.words = searched(table);
}

std::vector<Plan> structures(const PlanningTask& task, const PlanSpace& space) {
  std::vector<Axis> axes = space.volumes;
  axes.insert(axes.end(), space.arrangements.begin(), space.arrangements.end());
  axes.push_back(space.keeping);
  axes.back().insert(axes.back().end(), space.restoring.begin(), space.restoring.end());
  Plan base = task.base;
  base.backward_degrees.clear();
  return combinations(base, axes);
}

}  // namespace

double PlanSpace::points() const {
  double points = static_cast<double>(keeping.size() + restoring.size()) * static_cast<double>(grad_syncs.size()) *
                  static_cast<double>(forward_degrees.size() * (tied ? 1 : backward_degrees.size()));
  for (const auto& axes : {volumes, arrangements})
    for (const Axis& axis : axes) points *= static_cast<double>(axis.size());
  return points;
}

PlanSpace plan_space(const PlanningTask& task, std::span<const Knob> table) {
  const bool wide = task.choices.space == SearchSpace::Plans;
  PlanningTask candidates = task;
  if (wide) {
    candidates.base.scope = Scope::Moe;
    candidates.choices.degrees.push_back(task.base.forward_degree);  // that the user may have fixed
    candidates.choices.degrees.push_back(task.base.backward_degree);
  }
  const std::vector<int> degrees = allowed_degrees(candidates);
  const auto open = [&](int Plan::*knob) {
    std::vector<int> left = degrees;
    std::erase_if(left, [&](int degree) {
      Plan plan = task.base;
      plan.*knob = degree;
      return !holds(task, plan);
    });
    return left;
  };
  PlanSpace space;
  space.forward_degrees = open(&Plan::forward_degree);
  space.backward_degrees = open(&Plan::backward_degree);
  space.tied = task.choices.tie_degrees;
  space.words = "degrees";
  space.keeping = {[](Plan&) {}};
  space.grad_syncs = {task.base.grad_sync};
  if (wide) open_all_knobs(task, table, space);
  return space;
}

std::vector<Plan> combinations(const Plan& base, std::span<const Axis> axes) {
  std::vector<Plan> plans{base};
  for (const Axis& axis : axes) {
    std::vector<Plan> more;
    more.reserve(plans.size() * axis.size());
    for (const Plan& plan : plans)
      for (const Setting& set : axis) set(more.emplace_back(plan));
    plans = std::move(more);
  }
  return plans;
}

std::vector<Plan> gradient_plans(const Plan& plan, const PlanSpace& space, const Experiment& experiment,
                                 const LayerTimes& times) {
  std::vector<Plan> plans;
  for (GradSync sync : space.grad_syncs) {
    Plan with = plan;
    with.grad_sync = sync;
    if (sync != GradSync::Partitioned) with.gradient_slices.clear();
    if (sync != GradSync::Partitioned || experiment.workload.phases == Phases::ForwardOnly ||
        !plan.gradient_slices.empty()) {
      plans.push_back(with);
      continue;
    }
    const std::array degree{plan.backward_degree};
    plans.push_back(with_partition(with, partition_gradients(times, plan.comm_streams, degree)));
    const bool alone = space.grad_syncs.size() == 1 || experiment.parallelism.edp > 1;
    if (alone) plans.push_back(with_slices_of(with, GradSync::WithDense, times));
    if (alone) plans.push_back(with_slices_of(with, GradSync::After, times));
    if (space.by_layer && plan.scope != Scope::Block && plan.split == Split::Capacity)
      plans.push_back(with_partition(with, partition_gradients(times, plan.comm_streams, space.backward_degrees)));
  }
  return plans;
}

std::vector<Plan> sliced_plans(const Plan& plan, const Experiment& experiment) {
  if (!reduces(experiment)) return {};
  Plan open = without_choices(plan);
  const std::optional<LayerTimes> times = if_answered([&] { return layer_times(experiment, open); });
  if (!times) return {};
  open.grad_sync = GradSync::Partitioned;
  PlanSpace space;
  space.grad_syncs = {GradSync::Partitioned};
  return gradient_plans(open, space, experiment, *times);
}

void for_each_plan(const PlanningTask& task, const PlanSpace& space, const std::function<void(const Plan&)>& use) {
  for (const Plan& structure : structures(task, space)) {
    std::optional<LayerTimes> times;  // the same for all degrees
    const bool tied = space.tied || structure.scope == Scope::Block;
    const bool peers = task.choices.space == SearchSpace::Plans && structure.split == Split::Peers;
    for (int forward : space.forward_degrees)
      for (int backward : space.backward_degrees) {
        if ((tied && forward != backward) || (peers && std::max(forward, backward) > 1)) continue;
        Plan plan = structure;
        plan.forward_degree = forward;
        plan.backward_degree = backward;
        Plan unsliced = plan;
        if (unsliced.grad_sync == GradSync::Partitioned && unsliced.gradient_slices.empty())
          unsliced.grad_sync = GradSync::After;
        if (refusal(unsliced, task.experiment)) continue;
        if (!times) times = layer_times(task.experiment, structure);
        for (const Plan& with : gradient_plans(plan, space, task.experiment, *times))
          if (allowed(task, with)) use(with);
      }
  }
}

std::vector<Plan> degree_plans(PlanningTask task, const Plan& base) {
  task.base = base;
  task.choices.space = SearchSpace::Degrees;
  std::vector<Plan> plans;
  if (const auto space = if_answered([&] { return plan_space(task); }))  // else no degree is allowed
    for_each_plan(task, *space, [&](const Plan& plan) { plans.push_back(plan); });
  return plans;
}

}  // namespace dovetail::planners

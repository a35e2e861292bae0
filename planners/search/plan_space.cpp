#include "planners/search/plan_space.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "models/plan/collectives/all_to_all.hpp"
#include "models/plan/expert_sharding.hpp"
#include "models/price/calibration.hpp"
#include "models/question/volumes.hpp"
#include "planners/closed_form/gradient_partition.hpp"
#include "planners/contest.hpp"
#include "planners/pipelines.hpp"

namespace dovetail::planners {
namespace {

bool holds(const PlanningTask& task, const Plan& plan) {
  if (!task.hold) return true;
  Plan held = plan;
  task.hold(held);
  return held == plan;
}

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

template <class Knob>
Axis values(Knob Plan::*knob, std::initializer_list<Knob> list) {
  Axis axis;
  for (const Knob value : list) axis.push_back([knob, value](Plan& plan) { plan.*knob = value; });
  return axis;
}

// A setting that can never be built, or is the same as the one before it, would only be counted.
Axis exchanges(const PlanningTask& task) {
  Axis axis;
  const auto add = [&](AllToAll algorithm, AllToAllImplementation implementation) {
    axis.push_back([=](Plan& plan) {
      plan.all_to_all = algorithm;
      plan.all_to_all_implementation = implementation;
      if (algorithm == AllToAll::Linear) plan.all_to_all_levels.clear();
    });
  };
  add(AllToAll::Linear, AllToAllImplementation::PointToPoint);
  for (AllToAll algorithm : {AllToAll::NaiveLocal, AllToAll::Hierarchical1d, AllToAll::TwoDimensional}) {
    Plan plan = task.base;
    plan.all_to_all = algorithm;
    plan.split = Split::Capacity;
    if (refusal(plan, task.experiment) || all_to_all_steps(plan, task.experiment).size() < 2) continue;
    add(algorithm, AllToAllImplementation::PointToPoint);
    add(algorithm, AllToAllImplementation::Fused);
  }
  return axis;
}

Axis protocols(const PlanningTask& task) {
  Plan plan;
  plan.protocol = Protocol::BySize;
  return values(&Plan::protocol, {refusal(plan, task.experiment) ? Protocol::Simple : Protocol::BySize});
}

Axis shardings(const PlanningTask& task) {
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

Axis pipeline_axis(const PlanningTask& task) {
  Axis axis;
  if (task.experiment.parallelism.pp == 1) return axis;
  for (const Pipeline pipeline : pipelines(task)) axis.push_back([=](Plan& plan) { set_pipeline(plan, pipeline); });
  return axis;
}

Axis scopes(const PlanningTask& task) {
  Axis axis;
  const auto add = [&](Scope scope, Split split, int group) {
    axis.push_back([=](Plan& plan) {
      plan.scope = scope;
      plan.split = split;
      plan.peer_group = group;
    });
  };
  add(Scope::Moe, Split::Capacity, Plan{}.peer_group);
  add(Scope::Block, Split::Capacity, Plan{}.peer_group);
  for (int group = 1; group < task.experiment.parallelism.ep; group *= 2) add(Scope::Moe, Split::Peers, group);
  return axis;
}

Axis streams(const PlanningTask& task) {
  const Parallelism& p = task.experiment.parallelism;
  Axis axis = values(&Plan::comm_streams, {CommStreams::One, CommStreams::DispatchCombine});
  if (p.mp > 1 || p.esp > 1)  // else nothing would be on the second stream
    axis.push_back([](Plan& plan) { plan.comm_streams = CommStreams::InterIntra; });
  return axis;
}

Axis restores(const PlanningTask& task, bool keeping) {
  Axis axis;
  const bool training = task.experiment.workload.phases == Phases::Training;
  for (const auto& [name, restore] : restore_names)
    for (const auto& [ring, buffers] : buffers_names) {
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

void open_all_knobs(const PlanningTask& task, PlanSpace& space) {
  const auto open = [&](Axis axis) { return open_settings(task, std::move(axis)); };
  space.volumes = {open(exchanges(task)), open(protocols(task)),
                   open(values(&Plan::encoding, {Encoding::Sparse, Encoding::Dense})), open(shardings(task)),
                   open(pipeline_axis(task))};
  space.arrangements = {open(scopes(task)),
                        open(values(&Plan::order, {Order::DispatchFirst, Order::Alternate, Order::ReadyFirst})),
                        open(streams(task))};
  space.keeping = restores(task, true);
  space.restoring = restores(task, false);
  if (space.keeping.empty() && space.restoring.empty()) space.keeping.push_back([](Plan&) {});
  space.grad_syncs.clear();
  for (const auto& [name, sync] : grad_sync_names) {
    Plan plan = task.base;
    plan.grad_sync = sync;
    if (holds(task, plan)) space.grad_syncs.push_back(sync);
  }
  if (space.grad_syncs.empty()) space.grad_syncs = {task.base.grad_sync};
  if (!reduces(task.experiment)) space.grad_syncs.resize(1);
  space.by_layer = !space.tied && space.backward_degrees.size() > 1;
  space.words =
      "scopes, splits, orders, streams, all-to-alls, encodings, shardings, restoring, gradient slices and degrees";
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

PlanSpace plan_space(const PlanningTask& task) {
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
  if (wide) open_all_knobs(task, space);
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
  try {
    for_each_plan(task, plan_space(task), [&](const Plan& plan) { plans.push_back(plan); });
  } catch (const InputError&) {  // no degree is allowed
  }
  return plans;
}

bool allowed(const PlanningTask& task, const Plan& plan) {
  return holds(task, plan) && !refusal(plan, task.experiment);
}

}  // namespace dovetail::planners

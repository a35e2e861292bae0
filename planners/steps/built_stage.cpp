// SPDX-License-Identifier: Apache-2.0
#include "planners/steps/built_stage.hpp"

#include <algorithm>
#include <variant>

#include "models/price/calibration.hpp"
#include "models/schedule/op_table.hpp"
#include "models/time/analytic_backend.hpp"
#include "models/time/memory.hpp"
#include "planners/steps/held_over.hpp"

namespace dovetail::planners {
namespace {

bool reduces(OpKind kind) {
  return entry_of(kind).part == OpPart::StepEnd && entry_of(kind).communicates && kind != OpKind::GradientNormAllReduce;
}

// Once a step, after the passes or beside the last of them.
bool ends_step(const Op& op) {
  return op.phase == Phase::Update || entry_of(op.kind).part == OpPart::StepEnd;
}

// Its buffers do not grow with the layers, so that they count as the memory of work.
Bytes of_framework(const Schedule& s) {
  Bytes all;
  for (const Tensor& t : s.tensors)
    if (t.kind == TensorKind::FrameworkBuffers) all += t.bytes();
  return all;
}

// Counts launches and waits. Takes out the launches before the first wait of a pass, as if the host had been ahead.
void note_host(PricedSchedule& priced, StageTimes& times) {
  if (priced.launch.empty()) return;
  for (const OpId i : priced.schedule->ops.ids()) {
    const Op& op = priced.schedule->ops[i];
    if (ends_step(op)) continue;
    const bool forward = op.pass() == Phase::Forward;
    int& waits = forward ? times.waits_forward : times.waits_backward;
    (forward ? times.launches_forward : times.launches_backward) += priced.launch[i];
    if (op.half == Half::Weights) times.launches_weights += priced.launch[i];
    if (waits == 0) priced.launch[i] = {};
    waits += std::holds_alternative<HostWait>(*op.work);
  }
}

void note(const Op& op, Interval at, StageTimes& times) {
  times.step = std::max(times.step, at.finish);
  if (ends_step(op)) {
    if (reduces(op.kind)) times.reduced = std::max(times.reduced, at.finish);
    return;
  }
  const bool forward = op.pass() == Phase::Forward;
  times.both = std::max(times.both, at.finish);
  if (op.half != Half::Weights) times.inputs = std::max(times.inputs, at.finish);
  if (forward) times.forward = std::max(times.forward, at.finish);
  if (op.kind == OpKind::Embedding)
    (forward ? times.embedding_forward : times.embedding_backward) += at.finish - at.start;
}

void note_memory(const Schedule& s, StageTimes& times) {
  const Bytes persistent = held_over(s, /*rows=*/false);
  times.persistent = persistent - of_framework(s);
  times.held = s.classes.size() == 1 ? held_over(s) - persistent : Bytes(0);
}

// The host's work at the begin of a pass is counted apart.
Shared<Calibration> without_begins(Shared<Calibration> costs) {
  if (!costs->host) return costs;
  HostProfile& profile = costs.edit().host->profile;
  profile.forward_pass = profile.backward_pass = {};
  return costs;
}

std::vector<BuiltPlan> built(const Experiment& stage, const Plan& plan, Backward backward) {
  std::vector<BuiltPlan> all;
  for (const Layers& layers : telling_layers(stage)) all.emplace_back(of_layers(stage, layers), plan, backward);
  return all;
}

}  // namespace

std::vector<Layers> telling_layers(const Experiment& stage) {
  const bool dense = stage.model.dense();
  std::vector<Layers> all{dense ? Layers{1, 0, 0} : Layers{0, 1, 0}, dense ? Layers{2, 0, 0} : Layers{0, 2, 0}};
  if (!dense && stage.model.first_moe() > 0) all.push_back({1, 1, 0});
  if (stage.workload.mtp_layers > 0) all.push_back({0, 1, stage.workload.mtp_layers});
  return all;
}

Plan of_passes_alone(const Plan& plan) {
  Plan alone = of_one_stage(plan);
  alone.grad_sync = GradSync::After;
  alone.parameter_gather = ParameterGather::AfterUpdate;
  return alone;
}

BuiltPasses::BuiltPasses(const Experiment& stage, const Plan& plan, Backward backward)
    : layers_(built(stage, plan, backward)) {}

BuiltPasses::Times BuiltPasses::timed(const Shared<Calibration>& costs) const {
  const Shared<Calibration> of_layers = without_begins(costs);
  Times all;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    StageTimes& times = all.of.emplace_back();
    PricedSchedule priced = layers_[i].priced(of_layers);
    const Schedule& s = *priced.schedule;
    note_host(priced, times);
    const Timeline timeline = AnalyticBackend().run(priced);
    for (const OpId op : s.ops.ids()) note(s.ops[op], timeline.ops[op], times);
    times.reduced = std::max(times.reduced, times.both);
    note_memory(s, times);
    if (i == 1) all.working = memory_use(s, timeline, Arenas::LeftOut).peak - times.persistent - times.held;
  }
  return all;
}

BuiltPairs::BuiltPairs(const Experiment& stage, const Plan& plan) {
  Plan pairs = of_passes_alone(plan);
  pairs.scope = Scope::Batch;
  pairs.pair_order = plan.pair_order;
  pairs.follow(pipeline_schedule("1f1b"));
  pairs.micro_batches = 2;
  Experiment two = stage;
  two.workload.batch *= 2;
  layers_ = built(two, pairs, Backward::AsPlanned);
}

void BuiltPairs::time_pairs(const Shared<Calibration>& costs, std::vector<StageTimes>& passes) const {
  const Shared<Calibration> of_layers = without_begins(costs);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    StageTimes two;
    PricedSchedule priced = layers_[i].priced(of_layers);
    note_host(priced, two);
    const Timeline timeline = AnalyticBackend().run(priced);
    for (const OpId op : priced.schedule->ops.ids()) note(priced.schedule->ops[op], timeline.ops[op], two);
    passes[i].pair = two.both - passes[i].both;
  }
}

BuiltSteps::BuiltSteps(const Experiment& stage, const Plan& plan, Backward backward)
    : layers_(built(stage, plan, backward)) {}

void BuiltSteps::time_ends(const Shared<Calibration>& costs, std::vector<StageTimes>& passes) const {
  const Shared<Calibration> of_layers = without_begins(costs);
  std::vector<double> scratch;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    StageTimes& times = passes[i];
    const Seconds update = times.step - times.reduced;
    const Seconds step = analytic_makespan(layers_[i].priced(of_layers), scratch);
    times.reduced = std::max(times.both, step - update);
    times.step = std::max(step, times.reduced);
  }
}

}  // namespace dovetail::planners

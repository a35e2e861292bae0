// SPDX-License-Identifier: Apache-2.0
#include "planners/steps/stage_costs.hpp"

#include <algorithm>
#include <optional>
#include <variant>

#include "models/plan/knob_table.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/price/collective_price.hpp"
#include "models/price/kernel_price.hpp"
#include "models/price/price.hpp"
#include "models/question/parameters.hpp"
#include "models/question/volumes.hpp"
#include "models/schedule/op_table.hpp"
#include "models/time/analytic_backend.hpp"
#include "models/time/memory.hpp"
#include "planners/steps/held_over.hpp"
#include "planners/steps/one_stage.hpp"

namespace dovetail::planners {
namespace {

// The plan whose passes only compute and exchange rows. Gradients are reduced and weights gathered once in a step,
// beside the passes of one micro-batch.
Plan of_rows_alone(Plan plan) {
  plan.grad_sync = GradSync::After;
  plan.parameter_gather = ParameterGather::AfterUpdate;
  return plan;
}

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

// A schedule of a stage, timed.
struct Look {
  Seconds forward, both, reduced, step;  // the ends of the passes, of the reductions and of the step
  Seconds embedding_forward, embedding_backward;
  Seconds launches_forward, launches_backward;
  int waits_forward = 0, waits_backward = 0;
  Seconds compute, compute_embedding;
  Bytes persistent, held, peak;
};

class Looking {
 public:
  Looking(const Experiment& stage, const Plan& plan, const Shared<Calibration>& least)
      : stage_(stage), plan_(plan), least_(least) {
    if (!stage.calibration->host) return;
    HostProfile& profile = stage_.calibration.edit().host->profile;
    profile.forward_pass = profile.backward_pass = {};  // which are counted apart
  }

  Look at(Layers layers) const {
    const Experiment e = of_layers(stage_, layers);
    const Plan plan = of_one_stage(plan_), rows_alone = of_rows_alone(plan);
    PricedSchedule priced = price_plan(e, rows_alone);
    const Schedule& s = *priced.schedule;
    Look look;
    if (!priced.launch.empty()) note_host(priced, look);
    const Timeline timeline = AnalyticBackend().run(priced);
    Experiment cheapest = e;
    cheapest.calibration = least_;
    const PricedSchedule least = price(priced.schedule, cheapest);
    for (const OpId i : s.ops.ids())
      note(s.ops[i], s, timeline.ops[i], std::min(least.duration[i], if_sharded_otherwise(s.ops[i])), look);
    look.reduced = std::max(look.reduced, look.both);
    if (plan != rows_alone) {
      const Seconds update = look.step - look.reduced, step = makespan(e, plan);
      look.reduced = std::max(look.both, step - update);
      look.step = std::max(step, look.reduced);
    }
    const MemoryUse use = memory_use(s, timeline, Arenas::LeftOut);
    look.persistent = use.persistent - of_framework(s);
    look.peak = use.peak;
    look.held = s.classes.size() == 1 ? held_over(s) - use.persistent : Bytes(0);
    return look;
  }

 private:
  // The shards of an expert may have other shapes, or none, which no calibration makes faster than the peak.
  Seconds if_sharded_otherwise(const Op& op) const {
    const auto* kernel = std::get_if<KernelWork>(&*op.work);
    if (stage_.parallelism.esp == 1 || entry_of(op.kind).part != OpPart::Experts || kernel == nullptr)
      return Seconds(1e300);
    const auto peak = stage_.cluster.device.peak.find(stage_.workload.products.value_or(stage_.workload.dtype));
    return peak == stage_.cluster.device.peak.end() ? Seconds(0) : kernel->flops / peak->second;
  }

  // Its launches and waits. Takes out the launches before the first wait of a pass, as if it had been ahead.
  static void note_host(PricedSchedule& priced, Look& look) {
    for (const OpId i : priced.schedule->ops.ids()) {
      const Op& op = priced.schedule->ops[i];
      if (ends_step(op)) continue;
      const bool forward = op.pass() == Phase::Forward;
      int& waits = forward ? look.waits_forward : look.waits_backward;
      (forward ? look.launches_forward : look.launches_backward) += priced.launch[i];
      if (waits == 0) priced.launch[i] = {};
      waits += std::holds_alternative<HostWait>(*op.work);
    }
  }

  static void note(const Op& op, const Schedule& s, Interval at, Seconds least, Look& look) {
    look.step = std::max(look.step, at.finish);
    if (ends_step(op)) {
      if (reduces(op.kind)) look.reduced = std::max(look.reduced, at.finish);
      return;
    }
    const bool forward = op.pass() == Phase::Forward;
    look.both = std::max(look.both, at.finish);
    if (forward) look.forward = std::max(look.forward, at.finish);
    const bool embeds = op.kind == OpKind::Embedding;
    if (embeds) (forward ? look.embedding_forward : look.embedding_backward) += at.finish - at.start;
    const bool computes = s.streams[op.stream].kind == StreamKind::Compute && !op.recomputed &&
                          entry_of(op.kind).part != OpPart::Routing && s.class_of(op) == 0;
    if (!computes) return;
    look.compute += least;
    if (embeds) look.compute_embedding += least;
  }

  static Seconds makespan(const Experiment& e, const Plan& plan) {
    std::vector<double> scratch;
    return analytic_makespan(price_plan(e, plan), scratch);
  }

  Experiment stage_;
  const Plan& plan_;
  const Shared<Calibration>& least_;
};

PartCosts difference(const Look& more, const Look& less) {
  PartCosts part;
  part.forward = more.forward - less.forward;
  part.backward = more.both - less.both - part.forward;
  part.launches_forward = more.launches_forward - less.launches_forward;
  part.launches_backward = more.launches_backward - less.launches_backward;
  part.waits_forward = more.waits_forward - less.waits_forward;
  part.waits_backward = more.waits_backward - less.waits_backward;
  part.reduce = (more.reduced - more.both) - (less.reduced - less.both);
  part.update = (more.step - more.reduced) - (less.step - less.reduced);
  part.compute = more.compute - less.compute;
  part.persistent = more.persistent - less.persistent;
  part.held = more.held - less.held;
  return part;
}

// Splits what a stage has beside its layers: the embedding is the first stage's, and all else the last one's.
void split_ends(const Experiment& e, const Look& one, const PartCosts& layer, StageCosts& costs) {
  PartCosts& first = costs.first;
  first.forward = one.embedding_forward;
  first.backward = one.embedding_backward;
  first.compute = one.compute_embedding;
  PartCosts& last = costs.last;
  last = difference(one, {});
  last.forward -= layer.forward + first.forward;
  last.backward -= layer.backward + first.backward;
  last.launches_forward -= layer.launches_forward;
  last.launches_backward -= layer.launches_backward;
  last.waits_forward -= layer.waits_forward;
  last.waits_backward -= layer.waits_backward;
  last.compute -= layer.compute + first.compute;
  last.persistent -= layer.persistent;
  last.held -= layer.held;
  last.reduce -= layer.reduce;
  last.update -= layer.update;
  if (e.parallelism.pp == 1 || e.workload.extent != Extent::Model) return;
  // Both ends have a matrix of the vocabulary, which is one and the same where the head is tied and on one stage.
  // Layers of multi-token prediction embed words too, on the last stage.
  const bool tied = parameters(e.model).head == 0;
  const Bytes matrix = (tied ? 1 : .5) * last.persistent;
  first.persistent = matrix;
  last.persistent = !tied && e.workload.mtp_layers > 0 ? 2. * matrix : matrix;
  first.reduce = last.reduce;
  first.update = last.update;
}

// The rows of a micro-batch on their way to the next stage.
Seconds hop_of(const Experiment& e) {
  if (e.parallelism.pp == 1) return {};
  const LayerVolumes v = layer_volumes(e, 0);
  const Bytes rows = static_cast<double>(v.tokens * v.hidden) * size_of(e.workload.dtype);
  const GroupPlace place = place_of(e.parallelism, GroupKind::Pp, e.cluster);
  const ResourceTime time = find_cost(*e.calibration, Collective::Send, place).of(rows);
  return time.fixed + time.busy;
}

std::vector<std::int64_t> key_of(const Experiment& stage, const Plan& plan) {
  std::vector<std::int64_t> key = layout_key(stage);
  for (const Knob& knob : knobs()) append_value(knob, plan, key);
  return key;
}

StageCosts look_at(const Experiment& e, const Experiment& stage, const Plan& plan, const Shared<Calibration>& least) {
  const Looking looking(stage, plan, least);
  StageCosts costs;
  const bool dense = e.model.dense();
  const Layers one = dense ? Layers{1, 0, 0} : Layers{0, 1, 0}, two = dense ? Layers{2, 0, 0} : Layers{0, 2, 0};
  const Look first = looking.at(one), second = looking.at(two);
  PartCosts& layer = dense ? costs.dense : costs.moe;
  layer = difference(second, first);
  costs.working = second.peak - second.persistent - second.held;
  if (!dense && e.model.first_moe() > 0) costs.dense = difference(looking.at({1, 1, 0}), first);
  split_ends(e, first, layer, costs);
  if (const auto& host = e.calibration->host; host && plan.graphs != Graphs::All) {
    const PassTimes passes = pass_times(host->profile, host->speed(), host_sizes(e));
    costs.pass_forward = passes.forward;
    costs.pass_backward = passes.backward;
  }
  if (e.workload.mtp_layers > 0) {
    const PartCosts further = difference(looking.at({0, 1, e.workload.mtp_layers}), first);
    costs.last.forward += further.forward;
    costs.last.backward += further.backward;
    costs.last.launches_forward += further.launches_forward;
    costs.last.launches_backward += further.launches_backward;
    costs.last.waits_forward += further.waits_forward;
    costs.last.waits_backward += further.waits_backward;
    costs.last.compute += further.compute;
    costs.last.persistent += further.persistent;
    costs.last.held += further.held;
    costs.last.reduce += further.reduce;
    costs.last.update += further.update;
  }
  return costs;
}

}  // namespace

const StageCosts& StageCostTable::of(const Experiment& experiment, const Plan& plan) {
  if (!least_) {
    const Workload& w = experiment.workload;
    least_.emplace(least_costs(*experiment.calibration, w.dtype, w.other_products()));
  }
  Experiment e = experiment;
  e.workload.batch /= plan.micro_batches;
  Experiment stage = stage_alone(e);
  Plan known = plan;
  copy_knobs(KnobClass::Pipeline, Plan{}, known);
  const std::vector<std::int64_t> key = key_of(stage, known);
  const auto [place, added] = known_.try_emplace(key);
  if (added) try {
      place->second = look_at(e, stage, plan, *least_);
    } catch (...) {
      known_.erase(place);
      throw;
    }
  return place->second;
}

Seconds StageCostTable::hop(const Experiment& experiment, const Plan& plan) {
  Experiment e = experiment;
  e.workload.batch /= plan.micro_batches;
  const auto [place, added] = hops_.try_emplace(layout_key(e));
  if (added) place->second = hop_of(e);
  return place->second;
}

}  // namespace dovetail::planners

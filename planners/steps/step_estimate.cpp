// SPDX-License-Identifier: Apache-2.0
#include "planners/steps/step_estimate.hpp"

#include <algorithm>
#include <vector>

#include "models/question/stage_layout.hpp"

namespace dovetail::planners {
namespace {

// One pass of a micro-batch through a virtual stage.
struct StagePass {
  Seconds time, begin, launches;  // begin: what the host does first, for the pass as a whole
  bool waits;

  // From when device and host are free to when they are again. Both are in step once the host has waited.
  void run(Seconds& device, Seconds& host) const {
    const Seconds issued = host + begin + launches;
    device = std::max(device + time, waits ? std::max(issued, host + begin + time) : issued);
    host = waits ? device : issued;
  }
};

// The layers of a virtual stage, with the model's ends.
struct Chunk : PartCosts {
  Seconds begin_forward, begin_backward;

  StagePass forward_pass() const { return {forward, begin_forward, launches_forward, waits_forward > 0}; }
  StagePass backward_pass() const { return {backward, begin_backward, launches_backward, waits_backward > 0}; }
  StagePass pass(UnitKind kind) const {
    switch (kind) {
      case UnitKind::Forward:
        return forward_pass();
      case UnitKind::Backward:
        return backward_pass();
      case UnitKind::InputGradient:
        return {backward - weights, begin_backward, launches_backward - launches_weights, waits_backward > 0};
      case UnitKind::WeightGradient:
        break;
    }
    return {weights, {}, launches_weights, false};
  }
  // A forward pass beside a backward pass through another chunk.
  StagePass pair_with(const Chunk& other) const {
    const auto saved = [](const Chunk& c) { return c.forward + c.backward - c.pair; };
    return {forward + other.backward - std::min(saved(*this), saved(other)), begin_forward + other.begin_backward,
            launches_forward + other.launches_backward, waits_forward + other.waits_backward > 0};
  }
  // A micro-batch after another.
  Seconds both(Turns turns) const {
    Seconds device, host;
    const auto once = [&] {
      if (turns == Turns::Paired) return pair_with(*this).run(device, host);
      forward_pass().run(device, host);
      backward_pass().run(device, host);
    };
    once();
    const Seconds first = std::max(device, host);
    once();
    return std::max(device, host) - first;
  }
};

class Chunks {
 public:
  Chunks(const Experiment& e, const Plan& plan, const StageCosts& of_parts) : layout_(of_layers_alone(e, plan)) {
    const StageCosts costs = with_both_ends(of_parts, e, layout_);
    for (int v = 0; v < layout_.virtual_stages(); ++v) {
      Chunk& chunk = chunks_.emplace_back();
      for (int layer = layout_.run(v).first; layer < layout_.run(v).last; ++layer)
        add(e.model.is_moe(layer) ? costs.moe : costs.dense, chunk);
      chunk.begin_forward = costs.pass_forward;
      chunk.begin_backward = costs.pass_backward;
      if (layout_.is_first(v)) add(costs.first, chunk);
      if (layout_.is_last(v)) add(costs.last, chunk);
    }
  }

  int stages() const { return layout_.stages(); }
  int laps() const { return layout_.virtual_stages() / stages(); }
  int virtual_stages() const { return layout_.virtual_stages(); }
  int pipelines() const { return layout_.pipelines(); }
  int stage_of(int virtual_stage) const { return layout_.stage_of_virtual(virtual_stage); }
  const Chunk& of(int virtual_stage) const { return chunks_[static_cast<std::size_t>(virtual_stage)]; }
  // All of a stage's.
  Chunk of_stage(int stage) const {
    Chunk all;
    for (int v = 0; v < virtual_stages(); ++v) {
      if (stage_of(v) != stage) continue;
      all.begin_forward = of(v).begin_forward;
      all.begin_backward = of(v).begin_backward;
      add(of(v), all);
    }
    return all;
  }

 private:
  // Layers of multi-token prediction count with the last stage's costs.
  static StageLayout of_layers_alone(const Experiment& e, const Plan& plan) {
    return StageLayout(e.workload.layers, e.parallelism, plan.virtual_stages, 0, plan.pipeline().shape);
  }

  StageLayout layout_;
  std::vector<Chunk> chunks_;  // by virtual stage
};

// By stage: micro-batches whose rows it holds at the most. In closed form for the programs that searches try often.
std::vector<double> under_way(const Chunks& chunks, const Plan& plan) {
  const int stages = chunks.stages(), laps = chunks.laps();
  const NamedProgram& program = plan.pipeline();
  const double all = plan.micro_batches;
  std::vector<double> most(static_cast<std::size_t>(stages), all);
  if (program.last_first) return most;
  if (plan.lists_program()) {
    std::ranges::transform(most_live(plan.program.program()), most.begin(),
                           [&](int passes) { return static_cast<double>(passes) / laps; });
    return most;
  }
  if (!program.halves) {
    for (int s = 0; s < stages; ++s) {
      const bool paired = plan.turns() == Turns::Paired;
      const double units =
          laps == 1 && !paired ? stages - s : 2 * (stages - s - 1) + (laps - 1) * stages + (paired ? 2 : 1);
      most[static_cast<std::size_t>(s)] = std::min(all, units / laps);
    }
    return most;
  }
  const int few = std::min(plan.micro_batches, 3 * stages);
  const std::vector<int> units = most_live(make_program(plan.pipeline_schedule, stages, few, laps));
  std::ranges::transform(units, most.begin(), [&](int passes) { return static_cast<double>(passes) / laps; });
  return most;
}

// Gradients that are reduced beside the backward pass hold up the last micro-batch on its way through the stages.
bool holds_up(const Plan& plan) {
  return plan.grad_sync != GradSync::After;
}

// A step of few micro-batches, unit by unit.
struct Run {
  Seconds end;
  std::vector<Bytes> rows;  // by stage: the most that its micro-batches hold
};
Run run(const Chunks& chunks, const Plan& plan, int micro_batches, bool training, Seconds hop, PipelineOrders& orders) {
  const int virtual_stages = chunks.virtual_stages();
  const int last_done = plan.pipeline().last_first ? 0 : micro_batches - 1;
  const auto count = static_cast<std::size_t>(chunks.stages());
  Run result{{}, std::vector<Bytes>(count)};
  std::vector<Seconds> free(count), issued(count), arrived(static_cast<std::size_t>(virtual_stages * micro_batches));
  std::vector<Bytes> rows(count);
  // Forward rows and then their gradients are at one place after the other. Gradients of weights wait for nobody.
  const auto data_of = [&](const Unit& unit) -> Seconds& {
    return arrived[static_cast<std::size_t>(unit.micro_batch)];
  };
  const auto wait_for_data = [&](const Unit& unit, std::size_t stage) {
    if (unit.kind == UnitKind::WeightGradient) return;
    const int before = unit.stage + (unit.kind == UnitKind::Forward ? -1 : 1);
    const bool here = before < 0 || before == virtual_stages || chunks.stage_of(before) == chunks.stage_of(unit.stage);
    free[stage] = std::max(free[stage], here ? data_of(unit) : data_of(unit) + hop);
  };
  const auto finish = [&](const Unit& unit, std::size_t stage) {
    const Chunk& chunk = chunks.of(unit.stage);
    const bool forward = unit.kind == UnitKind::Forward, weights = unit.kind == UnitKind::WeightGradient;
    const bool done = unit.kind == UnitKind::Backward || weights;
    if (done && unit.micro_batch == last_done && holds_up(plan)) free[stage] += chunk.reduce;
    if (!weights) data_of(unit) = free[stage];
    if (forward) rows[stage] += chunk.held;
    result.rows[stage] = std::max(result.rows[stage], rows[stage]);
    if (done) rows[stage] -= chunk.held;
    result.end = std::max(result.end, free[stage]);
  };
  for (const Slot& slot : orders.of(plan, chunks.stages(), micro_batches, training, chunks.laps())) {
    const Unit& unit = slot.unit;
    const auto stage = static_cast<std::size_t>(chunks.stage_of(unit.stage));
    const Chunk& chunk = chunks.of(unit.stage);
    wait_for_data(unit, stage);
    if (slot.beside) wait_for_data(*slot.beside, stage);
    const bool paired = slot.beside && plan.turns() == Turns::Paired;
    if (paired)
      chunk.pair_with(chunks.of(slot.beside->stage)).run(free[stage], issued[stage]);
    else
      chunk.pass(unit.kind).run(free[stage], issued[stage]);
    finish(unit, stage);
    if (!slot.beside) continue;
    if (!paired) chunks.of(slot.beside->stage).pass(slot.beside->kind).run(free[stage], issued[stage]);
    finish(*slot.beside, stage);
  }
  return result;
}

// The slowest of the stages of a lap, lap by lap, and what the pipeline takes to be filled and drained. Gradients of
// weights that come later may fill every wait, so that the busiest rank alone counts.
Seconds all_passes(const Chunks& chunks, const Plan& plan, Seconds hop) {
  const int stages = chunks.stages(), laps = chunks.laps(), micro_batches = plan.micro_batches / chunks.pipelines();
  Seconds passes, busiest;
  for (int s = 0; s < stages; ++s) {
    const Seconds of_stage = chunks.of_stage(s).both(plan.turns());
    passes += of_stage;
    busiest = std::max(busiest, of_stage);
  }
  if (plan.pipeline().halves) return micro_batches * busiest;
  Seconds slowest;
  for (int lap = 0; lap < laps; ++lap) {
    Seconds of_lap;
    for (int s = 0; s < stages; ++s) of_lap = std::max(of_lap, chunks.of(lap * stages + s).both(plan.turns()));
    slowest += of_lap;
  }
  return micro_batches * slowest + std::max(Seconds(0), passes - slowest) / laps + 2.0 * (stages * laps - 1) * hop;
}

}  // namespace

StepEstimate quick_estimate(const Experiment& e, const Plan& plan, const StageCosts& costs, Seconds hop) {
  const Chunks chunks(e, plan, costs);
  StepEstimate step;
  Seconds end, update;
  const std::vector<double> most = under_way(chunks, plan);
  for (int s = 0; s < chunks.stages(); ++s) {
    const Chunk stage = chunks.of_stage(s);
    end = holds_up(plan) ? end + stage.reduce : std::max(end, stage.reduce);
    update = std::max(update, stage.update);
    const Bytes held = stage.persistent + most[static_cast<std::size_t>(s)] * stage.held;
    step.persistent = std::max(step.persistent, stage.persistent);
    step.held = std::max(step.held, held);
    step.peak = std::max(step.peak, held + costs.working);
  }
  step.time = all_passes(chunks, plan, hop) + end + update;
  return step;
}

StepEstimate estimate(const Experiment& e, const Plan& plan, const StageCosts& costs, Seconds hop,
                      PipelineOrders& orders) {
  const Chunks chunks(e, plan, costs);
  const int stages = chunks.stages(), all = plan.micro_batches;
  const bool training = e.workload.phases == Phases::Training;
  const auto run_of = [&](int micro_batches) { return run(chunks, plan, micro_batches, training, hop, orders); };
  const int shorter = 2 * stages + all % stages;
  StepEstimate step;
  Run longest;
  if (shorter + stages < all && !plan.pipeline().last_first && !plan.lists_program()) {
    longest = run_of(shorter + stages);
    step.time = longest.end + (all - shorter - stages) * ((longest.end - run_of(shorter).end) / stages);
  } else {
    longest = run_of(all);
    step.time = longest.end;
  }
  Seconds end;
  for (int s = 0; s < stages; ++s) {
    const Chunk stage = chunks.of_stage(s);
    end = std::max(end, stage.update + (holds_up(plan) ? Seconds(0) : stage.reduce));
    const Bytes held = stage.persistent + longest.rows[static_cast<std::size_t>(s)];
    step.persistent = std::max(step.persistent, stage.persistent);
    step.held = std::max(step.held, held);
    step.peak = std::max(step.peak, held + costs.working);
  }
  step.time += end;
  return step;
}

const std::vector<Slot>& PipelineOrders::of(const Plan& plan, int stages, int micro_batches, bool training, int laps) {
  if (plan.lists_program()) {
    const Program& program = plan.program.program();
    return listed_ = in_order(training ? program : forward_only(program));
  }
  const auto [place, added] =
      known_.try_emplace({plan.pipeline_schedule, plan.turns(), stages, micro_batches, training, laps});
  if (!added) return place->second;
  const Program program = make_program(plan.pipeline_schedule, stages, micro_batches, laps, plan.turns());
  place->second = in_order(training ? program : forward_only(program));
  return place->second;
}

}  // namespace dovetail::planners

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
struct Chunk {
  Seconds forward, backward, launches_forward, launches_backward, reduce, update;
  Seconds begin_forward, begin_backward;
  int waits_forward = 0, waits_backward = 0;
  Bytes persistent, held;

  StagePass forward_pass() const { return {forward, begin_forward, launches_forward, waits_forward > 0}; }
  StagePass backward_pass() const { return {backward, begin_backward, launches_backward, waits_backward > 0}; }
  // A micro-batch after another.
  Seconds both() const {
    Seconds device, host;
    forward_pass().run(device, host);
    backward_pass().run(device, host);
    const Seconds once = std::max(device, host);
    forward_pass().run(device, host);
    backward_pass().run(device, host);
    return std::max(device, host) - once;
  }

  template <class Part>  // PartCosts or Chunk
  void add(const Part& part) {
    forward += part.forward;
    backward += part.backward;
    launches_forward += part.launches_forward;
    launches_backward += part.launches_backward;
    waits_forward += part.waits_forward;
    waits_backward += part.waits_backward;
    reduce += part.reduce;
    update += part.update;
    persistent += part.persistent;
    held += part.held;
  }
};

class Chunks {
 public:
  Chunks(const Experiment& e, int laps, const StageCosts& costs) : stages_(e.parallelism.pp), laps_(laps) {
    const StageLayout layout(e.workload.layers, e.parallelism, laps);
    for (int v = 0; v < layout.virtual_stages(); ++v) {
      Chunk& chunk = chunks_.emplace_back();
      for (int layer = layout.run(v).first; layer < layout.run(v).last; ++layer)
        chunk.add(e.model.is_moe(layer) ? costs.moe : costs.dense);
      chunk.begin_forward = costs.pass_forward;
      chunk.begin_backward = costs.pass_backward;
    }
    chunks_.front().add(costs.first);
    chunks_.back().add(costs.last);
  }

  int stages() const { return stages_; }
  int laps() const { return laps_; }
  const Chunk& of(int virtual_stage) const { return chunks_[static_cast<std::size_t>(virtual_stage)]; }
  const Chunk& of(int stage, int lap) const { return of(lap * stages_ + stage); }
  Chunk of_stage(int stage) const {
    Chunk all = of(stage, 0);
    for (int lap = 1; lap < laps_; ++lap) all.add(of(stage, lap));
    return all;
  }

 private:
  int stages_, laps_;
  std::vector<Chunk> chunks_;  // by virtual stage
};

// Micro-batches whose rows stage s holds at the most.
double under_way(int s, const Chunks& chunks, const Plan& plan) {
  const double all = plan.micro_batches;
  if (plan.pipeline_schedule == PipelineSchedule::Gpipe) return all;
  if (chunks.laps() == 1) return std::min<double>(all, chunks.stages() - s);
  const double units = 2 * (chunks.stages() - s - 1) + (chunks.laps() - 1) * chunks.stages() + 1;
  return std::min<double>(all, units / chunks.laps());
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
  const int stages = chunks.stages(), virtual_stages = stages * chunks.laps();
  const auto count = static_cast<std::size_t>(stages);
  Run result{{}, std::vector<Bytes>(count)};
  std::vector<Seconds> free(count), issued(count), arrived(static_cast<std::size_t>(virtual_stages * micro_batches));
  std::vector<Bytes> rows(count);
  for (const Unit& unit : orders.of(plan.pipeline_schedule, stages, micro_batches, training, chunks.laps())) {
    const int at = unit.stage;
    const auto stage = static_cast<std::size_t>(at % stages);
    const Chunk& chunk = chunks.of(at);
    const bool forward = unit.kind == UnitKind::Forward;
    // Forward rows and then their gradients are at one place after the other.
    Seconds& data = arrived[static_cast<std::size_t>(unit.micro_batch)];
    const bool first = forward ? at == 0 : at == virtual_stages - 1;
    free[stage] = std::max(free[stage], first || stages == 1 ? data : data + hop);
    (forward ? chunk.forward_pass() : chunk.backward_pass()).run(free[stage], issued[stage]);
    const bool last = unit.micro_batch == (plan.pipeline_schedule == PipelineSchedule::Gpipe ? 0 : micro_batches - 1);
    if (!forward && last && holds_up(plan)) free[stage] += chunk.reduce;
    data = free[stage];
    rows[stage] += forward ? chunk.held : -1.0 * chunk.held;
    result.rows[stage] = std::max(result.rows[stage], rows[stage]);
    result.end = std::max(result.end, data);
  }
  return result;
}

}  // namespace

StepEstimate quick_estimate(const Experiment& e, const Plan& plan, const StageCosts& costs, Seconds hop) {
  const Chunks chunks(e, plan.virtual_stages, costs);
  StepEstimate step;
  Seconds passes, slowest, end, update;
  for (int s = 0; s < chunks.stages(); ++s) {
    const Chunk stage = chunks.of_stage(s);
    passes += stage.both();
    end = holds_up(plan) ? end + stage.reduce : std::max(end, stage.reduce);
    update = std::max(update, stage.update);
    const Bytes held = stage.persistent + under_way(s, chunks, plan) * stage.held;
    step.persistent = std::max(step.persistent, stage.persistent);
    step.held = std::max(step.held, held);
    step.peak = std::max(step.peak, held + costs.working);
  }
  for (int lap = 0; lap < chunks.laps(); ++lap) {
    Seconds of_lap;
    for (int s = 0; s < chunks.stages(); ++s) of_lap = std::max(of_lap, chunks.of(s, lap).both());
    slowest += of_lap;
  }
  const Seconds waiting =
      std::max(Seconds(0), passes - slowest) / chunks.laps() + 2.0 * (chunks.stages() * chunks.laps() - 1) * hop;
  step.time = plan.micro_batches * slowest + waiting + end + update;
  return step;
}

StepEstimate estimate(const Experiment& e, const Plan& plan, const StageCosts& costs, Seconds hop,
                      PipelineOrders& orders) {
  const Chunks chunks(e, plan.virtual_stages, costs);
  const int stages = chunks.stages(), all = plan.micro_batches;
  const bool training = e.workload.phases == Phases::Training;
  const auto run_of = [&](int micro_batches) { return run(chunks, plan, micro_batches, training, hop, orders); };
  const int shorter = 2 * stages + all % stages;
  StepEstimate step;
  Run longest;
  if (shorter + stages < all && plan.pipeline_schedule != PipelineSchedule::Gpipe) {
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

const std::vector<Unit>& PipelineOrders::of(PipelineSchedule schedule, int stages, int micro_batches, bool training,
                                            int laps) {
  const auto [place, added] = known_.try_emplace({schedule, stages, micro_batches, training, laps});
  if (!added) return place->second;
  const Program program = make_program(name_in(pipeline_schedule_names, schedule), stages, micro_batches, laps);
  place->second = in_order(training ? program : forward_only(program));
  return place->second;
}

}  // namespace dovetail::planners

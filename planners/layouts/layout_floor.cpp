// SPDX-License-Identifier: Apache-2.0
#include "planners/layouts/layout_floor.hpp"

#include <algorithm>

#include "models/question/stage_layout.hpp"
#include "planners/task/contest.hpp"

namespace dovetail::planners {
namespace {

// The layers of a virtual stage.
struct VirtualStage {
  int dense = 0, moe = 0, predictions = 0;
  bool first = false, last = false;
};

// How they pass the stages.
struct StagesWay {
  StageShape shape;
  int laps;
  bool halves;
  Turns turns;
};

// A layout whose micro-batches pass its stages so many times.
class LapsOfLayout {
 public:
  LapsOfLayout(const Experiment& e, const StagesWay& way, int micro_batches, const StageCosts& costs,
               const LeastCompute& computed, const StageFloor* floor, Seconds hop)
      : e_(e),
        layout_(e.workload.layers, e.parallelism, way.laps, 0, way.shape),
        stages_(e.parallelism.pp),
        laps_(way.laps),
        back_(way.shape == StageShape::V || way.shape == StageShape::TwoWays),
        halves_(way.halves),
        paired_(way.turns == Turns::Paired),
        micro_batches_(micro_batches / pipelines_of(way.shape)),
        costs_(with_both_ends(costs, e, layout_)),
        computed_(computed),
        floor_(floor),
        hop_(hop) {
    for (int v = 0; v < layout_.virtual_stages(); ++v) {
      VirtualStage& chunk = chunks_.emplace_back();
      for (int layer = layout_.run(v).first; layer < layout_.run(v).last; ++layer)
        ++(e.model.is_moe(layer) ? chunk.moe : chunk.dense);
      chunk.first = layout_.is_first(v);
      chunk.last = layout_.is_last(v);
      if (chunk.last) chunk.predictions = e.workload.mtp_layers;
    }
  }

  // The least of all ways that may fit; `time` is no_time where none does.
  LayoutFloor least(Bytes limit) const {
    const std::size_t ways = floor_ == nullptr ? 1 : floor_->ways.size();
    LayoutFloor best{no_time, {}, {}, {}};
    for (std::size_t way = 0; way < ways; ++way) {
      const LayoutFloor floor = of(way);
      if (floor.time < best.time && (floor_ == nullptr || floor_->moe.held.empty() || fits(way, limit))) best = floor;
      if (way == 0 && best.time < no_time) break;  // every other way takes longer
    }
    return best;
  }

 private:
  const VirtualStage& chunk(int stage, int lap) const {
    const int place = back_ && lap == 1 ? 2 * stages_ - 1 - stage : lap * stages_ + stage;
    return chunks_[static_cast<std::size_t>(place)];
  }

  Seconds again(const VirtualStage& c, std::size_t way) const {
    if (floor_ == nullptr || floor_->moe.held.empty() || paired_) return {};
    return c.dense * floor_->dense.again[way] + (c.moe + c.predictions) * floor_->moe.again[way];
  }

  Seconds passes(const VirtualStage& c) const {
    Seconds least = c.dense * computed_.dense + c.moe * computed_.moe;
    if (floor_ != nullptr) {
      const Seconds border = c.dense > 0 ? floor_->dense.at_border : Seconds(0);
      least = std::max(least, paired_ ? c.dense * floor_->dense.paired + c.moe * floor_->moe.paired
                                      : c.dense * floor_->dense.passes - border + c.moe * floor_->moe.passes);
    }
    if (c.first) least += computed_.first;
    if (!c.last) return least;
    if (floor_ == nullptr) return least + computed_.last;
    const Seconds prediction = paired_ ? floor_->moe.paired : floor_->moe.passes;
    return least + std::max(computed_.last, floor_->head + c.predictions * prediction);
  }

  LayoutFloor of(std::size_t way) const {
    LayoutFloor floor;
    const int hops = e_.workload.phases == Phases::Training ? 2 : 1;
    Seconds before, copied;
    for (int s = 0; s < stages_; ++s) {
      Seconds layers, more, copies;
      for (int lap = 0; lap < laps_; ++lap) {
        const VirtualStage& c = chunk(s, lap);
        layers += passes(c);
        more += again(c, way);
        if (floor_ != nullptr && !floor_->moe.held.empty()) copies += c.moe * floor_->moe.copied[way];
      }
      copied = std::max(copied, micro_batches_ * copies);
      const Seconds time = before + micro_batches_ * (layers + more);
      if (time > floor.time) floor = {time, micro_batches_ * layers, micro_batches_ * more, before};
      if (layout_.pipelines() == 2) continue;  // the other pipeline may begin here
      // The gradients of weights of earlier stages may fill the wait for this one.
      before += halves_ ? hop_ : passes(chunk(s, 0)) + again(chunk(s, 0), way) + hops * hop_;
    }
    floor.time = std::max(floor.time, copied);
    return floor;
  }

  // Units that begin before the first backward pass, by lap; see make_program().
  std::vector<int> under_way(int stage) const {
    std::vector<int> units(static_cast<std::size_t>(laps_));
    if (e_.workload.phases != Phases::Training) return units;
    if (back_) {
      units.front() = 1;
      units.back() = layout_.pipelines() - 1;
      return units;
    }
    const int later = stages_ - 1 - stage, all = micro_batches_ * laps_;
    const int ahead = (laps_ == 1 || halves_ ? later : 2 * later) + (laps_ - 1) * stages_;
    for (int i = 0; i < std::min(all, ahead + 1); ++i)
      ++units[static_cast<std::size_t>(i % (stages_ * laps_) / stages_ % laps_)];
    return units;
  }

  // By the layer that the first backward pass on the stage reaches first.
  Bytes made_again(int stage, std::size_t way) const {
    if (layout_.pipelines() == 2)  // either of them
      return std::min(made_again(chunk(stage, 0), way), made_again(chunk(stage, 1), way));
    return made_again(chunk(stage, laps_ - 1), way);
  }
  Bytes made_again(const VirtualStage& c, std::size_t way) const {
    if (c.moe == 0) return c.dense > 0 ? floor_->dense.made_again[way] : Bytes(0);
    return c.dense == 0 ? floor_->moe.made_again[way]
                        : std::min(floor_->dense.made_again[way], floor_->moe.made_again[way]);
  }

  bool fits(std::size_t way, Bytes limit) const {
    for (int s = 0; s < stages_; ++s) {
      const std::vector<int> units = under_way(s);
      Bytes held;
      for (int lap = 0; lap < laps_; ++lap) {
        const VirtualStage& c = chunk(s, lap);
        held += c.dense * costs_.dense.persistent + c.moe * costs_.moe.persistent;
        if (c.first) held += costs_.first.persistent;
        if (c.last) held += costs_.last.persistent;
        held +=
            units[static_cast<std::size_t>(lap)] * (c.dense * floor_->dense.held[way] + c.moe * floor_->moe.held[way]);
      }
      if (e_.workload.phases == Phases::Training)
        held += std::max(made_again(s, way), layout_.has_end(s) ? floor_->head_rows : Bytes(0));
      if (held > limit) return false;
    }
    return true;
  }

  const Experiment& e_;
  const StageLayout layout_;
  const int stages_, laps_;
  const bool back_, halves_;  // stages lie down and back up; gradients of weights come later
  const bool paired_;         // passes of two micro-batches lie beside each other
  const int micro_batches_;   // of a pipeline
  const StageCosts costs_;
  const LeastCompute& computed_;
  const StageFloor* const floor_;  // null: only what is computed at the best rates is known
  const Seconds hop_;
  std::vector<VirtualStage> chunks_;
};

// How often a micro-batch passes the stages of a given layout of them.
int laps_given(const Plan& plan) {
  return plan.virtual_stages / pipelines_of(plan.pipeline().shape);
}

// The most laps that any plan on the layout has.
int most_laps_of(const Experiment& e, int micro_batches, const Plan& plan) {
  const int pp = e.parallelism.pp;
  if (!e.parallelism.pipeline_layout.empty()) return laps_given(plan);
  return pp == 1 || micro_batches % pp != 0 ? 1 : e.workload.layers / pp;
}

}  // namespace

LayoutFloors::LayoutFloors(const Experiment& experiment, const Plan& base, const StageFloors::Hold& hold, Bytes limit,
                           StageCostTable& costs)
    : experiment_(experiment), hold_(hold), limit_(limit), costs_(costs), stages_(experiment, base, hold) {}

// Whether the question leaves it to plans to have a schedule of this kind.
bool LayoutFloors::may_be(StageShape shape, bool halves, Plan plan) const {
  return std::ranges::any_of(pipeline_schedule_names, [&](const auto& named) {
    plan.pipeline_schedule = named.second;
    if (hold_) hold_(plan);
    return plan.pipeline().halves == halves && plan.pipeline().shape == shape;
  });
}

// Whether it leaves it to plans to have exchanges run beside another micro-batch, beside shared experts or beside
// gradients of weights.
bool LayoutFloors::may_overlap(const Experiment& e, const Plan& plan) const {
  if (e.parallelism.ep == 1 || e.model.dense()) return false;
  Plan wanted = plan;
  wanted.scope = Scope::Batch;
  wanted.delay_weight_gradient = DelayedWeights::All;
  wanted.shared_experts = SharedExperts::Overlapped;
  if (hold_) hold_(wanted);
  const bool training = e.workload.phases == Phases::Training;
  return (training && wanted.scope == Scope::Batch) ||
         (training && wanted.delay_weight_gradient != DelayedWeights::None) ||
         (e.model.shared_experts.count > 0 && wanted.shared_experts == SharedExperts::Overlapped);
}

bool LayoutFloors::is_listed(Plan plan) const {
  if (hold_) hold_(plan);
  return plan.lists_program();
}

LayoutFloor LayoutFloors::of(const ParallelLayout& layout, const Plan& plan, FloorDetail detail) {
  if (is_listed(plan)) return {};
  const Experiment e = with_layout(experiment_, layout);
  Experiment micro_batch = e;
  micro_batch.workload.batch = layout.micro_batch;
  const StageCosts& costs = costs_.of(e, plan);
  const LeastCompute& computed = computed_.of(e, plan);
  const Seconds hop = costs_.hop(e, plan);
  const StageFloor* const floor = stages_.of(micro_batch, detail);
  const int pp = e.parallelism.pp, layers = e.workload.layers;
  const bool given = !e.parallelism.pipeline_layout.empty();
  const int least_laps = given ? laps_given(plan) : 1;
  LayoutFloor best{no_time, {}, {}, {}};
  const bool overlaps = may_overlap(e, plan);
  const auto look = [&](StageShape shape, int laps, bool halves) {
    if (pp > 1 && !may_be(shape, halves, plan)) return;
    for (const Turns turns : {Turns::Apart, Turns::Paired}) {
      if (turns == Turns::Paired && !overlaps) continue;
      const LapsOfLayout way(e, {shape, laps, halves, turns}, layout.micro_batches, costs, computed, floor, hop);
      const LayoutFloor least = way.least(limit_);
      if (least.time < best.time) best = least;
    }
  };
  const bool even = pp % 2 == 0 && layout.micro_batches % 2 == 0;
  const bool halves_too = pp > 1 && e.workload.phases == Phases::Training;
  for (const bool halves : {false, true}) {
    if (halves && !halves_too) break;
    if (least_laps == 1) look(StageShape::One, 1, halves);
    for (int laps = std::max(2, least_laps); laps <= most_laps_of(e, layout.micro_batches, plan); ++laps)
      look(StageShape::Laps, laps, halves);
    if (given ? least_laps == 2 : 2 * pp <= layers) look(StageShape::V, 2, halves);
    // Each of two pipelines has all stages of a given layout.
    if (even && (given ? least_laps == 1 : pp <= layers)) look(StageShape::TwoWays, 2, halves);
  }
  return best;
}

}  // namespace dovetail::planners

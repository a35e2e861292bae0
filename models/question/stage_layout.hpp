// SPDX-License-Identifier: Apache-2.0
// The layers that each pipeline stage holds: the one place that knows.
//
// A stage is the ranks of one place in the pipeline. With virtual stages a micro-batch passes all stages several times:
// in laps, where in lap c stage s works on virtual stage c p + s, for p stages (Narayanan et al. 2021); or down and
// back up, where it works on virtual stages s and 2 p - 1 - s. Two pipelines may lie against each other instead: each
// has all layers and half of the micro-batches, virtual stages 0 to p - 1 are those of the first, and p to 2 p - 1
// those of the second, which begins where the first ends (DualPipe, DeepSeek-AI 2025).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "models/question/parallelism.hpp"
#include "models/question/workload.hpp"

namespace dovetail {

// Layers [first, last) of a virtual stage.
struct LayerRun {
  int first = 0, last = 0;
  bool empty() const { return first == last; }
};

// How virtual stages lie on the stages: one on each, several in laps, two down and back up, or one each of two
// pipelines.
enum class StageShape : std::uint8_t { One, Laps, V, TwoWays };

constexpr int pipelines_of(StageShape shape) {
  return shape == StageShape::TwoWays ? 2 : 1;
}

// By virtual stage: its stage.
std::vector<int> stages_of(StageShape shape, int stages, int laps);

class StageLayout {
 public:
  // Virtual stages have the runs that parallelism.pipeline_layout gives them. Without one they have equal runs, the
  // first ones one longer where they do not divide the layers. Layers of multi-token prediction are the last ones of
  // the last run.
  explicit StageLayout(const Workload& workload, const Parallelism& parallelism = {}, int laps = 1,
                       StageShape shape = StageShape::Laps)
      : StageLayout(workload.layers, parallelism, laps, workload.mtp_layers, shape) {}
  explicit StageLayout(int layers, const Parallelism& parallelism = {}, int laps = 1, int mtp_layers = 0,
                       StageShape shape = StageShape::Laps);

  int stages() const { return static_cast<int>(layers_.size()); }
  int virtual_stages() const { return static_cast<int>(runs_.size()); }  // of all stages together
  LayerRun run(int virtual_stage) const { return runs_[static_cast<std::size_t>(virtual_stage)]; }
  int stage_of_virtual(int virtual_stage) const { return holders_[static_cast<std::size_t>(virtual_stage)]; }

  // The stages where a micro-batch's forward pass begins and ends, in the first pipeline or another.
  int pipelines() const { return pipelines_; }
  int begins_at(int pipeline = 0) const { return stage_of_virtual(pipeline * of_pipeline()); }
  int ends_at(int pipeline = 0) const { return stage_of_virtual((pipeline + 1) * of_pipeline() - 1); }
  bool has_begin(int stage) const;
  bool has_end(int stage) const;
  // The virtual stage at the begin of its pipeline, and the one at the end.
  bool is_first(int virtual_stage) const { return virtual_stage % of_pipeline() == 0; }
  bool is_last(int virtual_stage) const { return is_first(virtual_stage + 1); }

  // In ascending order; the backward pass reaches them in the reverse order. They are no single run in several laps.
  std::span<const int> layers_of(int stage) const { return layers_[static_cast<std::size_t>(stage)]; }
  // With two pipelines each layer is on two stages, of which this is the first. Their gradients have to be added up.
  int stage_of(int layer) const { return stage_of_[static_cast<std::size_t>(layer)]; }
  // The other stage that holds the same layers; the stage itself where there is none.
  int twin_of(int stage) const { return pipelines_ == 1 ? stage : stages() - 1 - stage; }

 private:
  int of_pipeline() const { return virtual_stages() / pipelines_; }

  int pipelines_;
  std::vector<LayerRun> runs_;            // by virtual stage
  std::vector<int> holders_;              // by virtual stage: its stage
  std::vector<std::vector<int>> layers_;  // by stage
  std::vector<int> stage_of_;             // by layer
};

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
#include "models/question/stage_layout.hpp"

#include <algorithm>

#include "models/base/errors.hpp"
#include "models/question/pipeline_layout.hpp"

namespace dovetail {
namespace {

std::vector<LayerRun> stage_runs(int layers, const Parallelism& parallelism, int laps, int mtp_layers,
                                 StageShape shape) {
  std::vector<LayerRun> runs;
  int next = 0;
  const auto add = [&](int length) {
    runs.push_back({next, next + length});
    next += length;
  };
  const int stages = parallelism.pp * laps / pipelines_of(shape);
  if (parallelism.pipeline_layout.empty())
    for (int i = 0; i < stages; ++i) add(layers / stages + (i < layers % stages ? 1 : 0));
  else
    for (const LayoutStage& stage : parse_pipeline_layout(parallelism.pipeline_layout)) add(stage.layers);
  check(next == layers && runs.size() == static_cast<std::size_t>(stages), "a layout of other stages or layers");
  runs.back().last += mtp_layers;
  const std::vector<LayerRun> of_pipeline = runs;
  for (int i = 1; i < pipelines_of(shape); ++i) runs.insert(runs.end(), of_pipeline.begin(), of_pipeline.end());
  return runs;
}

}  // namespace

std::vector<int> stages_of(StageShape shape, int stages, int laps) {
  const bool back = shape == StageShape::V || shape == StageShape::TwoWays;
  std::vector<int> holders;
  for (int i = 0; i < stages * laps; ++i) holders.push_back(back && i >= stages ? 2 * stages - 1 - i : i % stages);
  return holders;
}

StageLayout::StageLayout(int layers, const Parallelism& parallelism, int laps, int mtp_layers, StageShape shape)
    : pipelines_(pipelines_of(shape)),
      runs_(stage_runs(layers, parallelism, laps, mtp_layers, shape)),
      holders_(stages_of(shape, parallelism.pp, laps)),
      layers_(static_cast<std::size_t>(parallelism.pp)),
      stage_of_(static_cast<std::size_t>(layers + mtp_layers), parallelism.pp) {
  for (int i = 0; i < virtual_stages(); ++i)
    for (int layer = run(i).first; layer < run(i).last; ++layer) {
      const int stage = stage_of_virtual(i);
      layers_[static_cast<std::size_t>(stage)].push_back(layer);
      int& first = stage_of_[static_cast<std::size_t>(layer)];
      first = std::min(first, stage);
    }
  for (std::vector<int>& of_stage : layers_) std::ranges::sort(of_stage);
}

bool StageLayout::has_begin(int stage) const {
  return stage == begins_at() || stage == begins_at(pipelines_ - 1);
}

bool StageLayout::has_end(int stage) const {
  return stage == ends_at() || stage == ends_at(pipelines_ - 1);
}

}  // namespace dovetail

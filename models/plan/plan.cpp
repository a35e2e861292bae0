// SPDX-License-Identifier: Apache-2.0
#include "models/plan/plan.hpp"

#include <algorithm>

#include "models/plan/program.hpp"
#include "models/question/experiment.hpp"
#include "models/question/stage_layout.hpp"

namespace dovetail {

std::vector<GradientSlice> gradient_slices(const Plan& plan, std::span<const std::int64_t> elements, Bytes element,
                                           const StageLayout& layout) {
  if (plan.grad_sync == GradSync::Partitioned) return plan.gradient_slices;
  const auto chunk = static_cast<std::int64_t>(static_cast<double>(plan.gradient_chunk_bytes) / element.value());
  std::vector<GradientSlice> slices;
  for (int stage = layout.stages() - 1; stage >= 0; --stage) {
    if (layout.twin_of(stage) < stage) continue;
    const std::span<const int> layers = layout.layers_of(stage);
    std::int64_t waiting = 0;  // gradients that exist and are in no slice yet
    for (std::size_t i = layers.size(); i-- > 0;) {
      waiting += elements[static_cast<std::size_t>(layers[i])];
      const bool last = i == 0;
      const int next = layers[last ? 0 : i - 1];  // that the backward pass reaches
      if (plan.grad_sync == GradSync::FixedChunks) {
        for (; waiting >= chunk || (last && waiting > 0); waiting -= std::min(chunk, waiting))
          slices.push_back({last ? Window::Tail : Window::Moe, next, std::min(chunk, waiting)});
        continue;
      }
      const bool beside_next = plan.grad_sync == GradSync::WithDense && !last;
      slices.push_back({beside_next ? Window::Dense : Window::Tail, beside_next ? next : layers.front(), waiting});
      waiting = 0;
    }
  }
  return slices;
}

Program program_of(const Plan& plan, int ranks) {
  if (plan.lists_program()) return plan.program.program();
  return make_program(plan.pipeline_schedule, ranks, plan.micro_batches, plan.virtual_stages, plan.turns());
}

StageLayout stage_layout(const Plan& plan, const Experiment& e) {
  return StageLayout(e.workload, e.parallelism, plan.virtual_stages, plan.pipeline().shape);
}

}  // namespace dovetail

#include "models/plan/plan.hpp"

#include <algorithm>

#include "models/question/parallelism.hpp"

namespace dovetail {

std::vector<GradientSlice> gradient_slices(const Plan& plan, std::span<const std::int64_t> elements, Bytes element,
                                           int stages) {
  if (plan.grad_sync == GradSync::Partitioned) return plan.gradient_slices;
  const auto chunk = static_cast<std::int64_t>(static_cast<double>(plan.gradient_chunk_bytes) / element.value());
  std::vector<GradientSlice> slices;
  for (int stage = stages - 1; stage >= 0; --stage) {
    const LayerRun run = layers_of_stage(static_cast<int>(elements.size()), stages, stage);
    std::int64_t waiting = 0;  // gradients that exist and are in no slice yet
    for (int layer = run.last - 1; layer >= run.first; --layer) {
      waiting += elements[static_cast<std::size_t>(layer)];
      const bool last = layer == run.first;
      if (plan.grad_sync == GradSync::FixedChunks) {
        for (; waiting >= chunk || (last && waiting > 0); waiting -= std::min(chunk, waiting))
          slices.push_back({last ? Window::Tail : Window::Moe, last ? layer : layer - 1, std::min(chunk, waiting)});
        continue;
      }
      const bool beside_next = plan.grad_sync == GradSync::WithDense && !last;
      slices.push_back({beside_next ? Window::Dense : Window::Tail, beside_next ? layer - 1 : run.first, waiting});
      waiting = 0;
    }
  }
  return slices;
}

}  // namespace dovetail

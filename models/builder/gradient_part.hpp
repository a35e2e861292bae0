// Reductions of weight gradients over the ranks that hold the same weights, and the optimizer update after them.
#pragma once
#include "models/builder/step_context.hpp"

namespace dovetail::builder {

class GradientPart {
 public:
  explicit GradientPart(StepContext& c);

  // The all-reduces of the slices in this window, after the gradients that exist by now; beside a layer's attention, with
  // with_dense and fixed_chunks, those of its experts too.
  void add_slices(Window window, int layer);
  // What is left after the backward pass, then the update.
  void finish_step();

 private:
  void reduce_dense(Window window, int layer);
  void reduce_experts(int layer);
  void add_update();

  StepContext& c_;
  std::vector<GradientSlice> slices_;  // those not yet placed start at next_
  std::size_t next_ = 0;
  std::int64_t reduced_ = 0;  // dense gradients covered by the slices placed so far
};

}  // namespace dovetail::builder

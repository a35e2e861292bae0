// SPDX-License-Identifier: Apache-2.0
// Reductions of one stage's weight gradients over the ranks that hold the same weights, and the optimizer update after
// them. Gradients add up over the backward passes of the micro-batches; only the last one reduces. A stage's last lap
// has its last pass before the laps before it have theirs.
#pragma once
#include "models/schedule/builder/step_context.hpp"

namespace dovetail::builder {

class GradientPart {
 public:
  explicit GradientPart(StepContext& c);  // of the stage entered

  void begin_pass(int lap);
  // In the last pass of a lap: the all-reduces of the slices in this window, after the gradients that exist by now;
  // beside a layer's attention, with with_dense and fixed_chunks, those of its experts too.
  void add_slices(Window window, int layer);
  // Once a pass has made its gradients of weights. After the last pass of all: what is left and, unless the stage
  // exchanges gradients with another, what settle() adds.
  void end_pass();
  // Once the gradients are complete: the update, and with zero 1 the weights that others have updated. If gradients are
  // clipped, only this stage's part of their norm, and finish() does the rest.
  void settle();
  // Once all stages have their `norms`: the sum of these, the update and what follows it.
  void finish(std::span<const TensorId> norms);

 private:
  int passes_of_lap() const { return c_.plan().micro_batches / c_.layout().pipelines(); }
  bool last_pass() const { return passes_[lap_] == passes_of_lap(); }
  ExchangeWork reduction(int layer, GroupKind group, std::int64_t elements) const;
  void reduce_dense(Window window, int layer);
  void reduce_experts(int layer);
  void reduce_low_ranks();
  void reduce_replicated();
  void reduce_replicated(GroupKind group, RowRange elements);  // of `replicated_gradients`
  void add_norm();
  void update();
  void add_update();

  StepContext& c_;
  std::span<const GradientSlice> slices_;  // those not yet placed start at next_
  std::size_t next_ = 0;
  std::int64_t reduced_ = 0;  // dense gradients covered by the slices placed so far
  std::vector<int> passes_;   // begun, by lap
  int ended_ = 0;             // passes of all laps
  std::size_t lap_ = 0;       // of the pass begun last
};

}  // namespace dovetail::builder

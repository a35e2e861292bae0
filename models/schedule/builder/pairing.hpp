// SPDX-License-Identifier: Apache-2.0
// Merges the ops of a forward pass with those of a backward pass of another micro-batch, so that the exchanges of one
// run beside the computation of the other. Each pass keeps its own order: a paired step is a permutation of the
// unpaired one.
#pragma once
#include <vector>

#include "models/plan/plan.hpp"
#include "models/question/stage_layout.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail::builder {

// The ops of a unit, one after the other.
struct UnitOps {
  int stage = 0;  // virtual
  OpId first, end;
};

class Pairing {
 public:
  Pairing(const StageLayout& layout, PairOrder order) : layout_(layout), order_(order) {}

  // The first layer of the forward pass goes with the last one of the backward pass, and so on. Layers that are left
  // over run alone, those of the backward pass first.
  std::vector<OpId> merged(const Schedule& schedule, const UnitOps& forward, const UnitOps& backward) const;

 private:
  const StageLayout& layout_;
  PairOrder order_;
};

}  // namespace dovetail::builder

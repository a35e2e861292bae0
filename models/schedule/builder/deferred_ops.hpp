// SPDX-License-Identifier: Apache-2.0
// Ops that make gradients of weights, and those that read these, until the unit of their micro-batch and stage comes.
#pragma once
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "models/schedule/op.hpp"

namespace dovetail::builder {

struct DeferredOp {
  Op op;
  std::vector<TensorId> reads, writes;
  OpId after;
};

class DeferredOps {
 public:
  // Between the two, ops may be added, to the unit of this virtual stage and micro-batch.
  void begin(int stage, int micro_batch);
  void end() { open_ = nullptr; }
  bool is_open() const { return open_ != nullptr; }

  void add(DeferredOp op);
  // Whether an op that still waits writes one of these.
  bool writes_any(std::span<const TensorId> tensors) const;
  // The ops of a unit, which wait no longer.
  std::vector<DeferredOp> take(int stage, int micro_batch);

 private:
  std::map<std::pair<int, int>, std::vector<DeferredOp>> units_;
  std::vector<DeferredOp>* open_ = nullptr;
  std::map<TensorId, int> writers_;  // how many wait to write it
};

}  // namespace dovetail::builder

// SPDX-License-Identifier: Apache-2.0
// The buffers that the chunks of one pass over one layer take turns in.
#pragma once
#include <vector>

#include "models/schedule/op.hpp"

namespace dovetail::builder {

class Ring {
 public:
  explicit Ring(int depth) : depth_(static_cast<std::size_t>(depth)) {}  // 0: no ring, memory of its own for each

  // The tensor from which the next chunk's tensor takes over memory; none: it has its own.
  TensorId next() const { return depth_ == 0 || used_.size() < depth_ ? TensorId() : used_[used_.size() - depth_]; }
  TensorId add(TensorId tensor) {
    used_.push_back(tensor);
    return tensor;
  }

 private:
  std::size_t depth_;
  std::vector<TensorId> used_;
};

}  // namespace dovetail::builder

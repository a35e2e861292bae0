// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/builder/deferred_ops.hpp"

#include <algorithm>

namespace dovetail::builder {

void DeferredOps::begin(int stage, int micro_batch) {
  open_ = &units_[{stage, micro_batch}];
}

void DeferredOps::add(DeferredOp op) {
  for (const TensorId id : op.writes) ++writers_[id];
  open_->push_back(std::move(op));
}

bool DeferredOps::writes_any(std::span<const TensorId> tensors) const {
  return std::ranges::any_of(tensors, [this](TensorId id) { return writers_.contains(id); });
}

std::vector<DeferredOp> DeferredOps::take(int stage, int micro_batch) {
  auto unit = units_.extract({stage, micro_batch});
  if (unit.empty()) return {};
  for (const DeferredOp& op : unit.mapped())
    for (const TensorId id : op.writes)
      if (const auto writers = writers_.find(id); --writers->second == 0) writers_.erase(writers);
  return std::move(unit.mapped());
}

}  // namespace dovetail::builder

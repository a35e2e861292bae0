// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/schedule.hpp"

#include <fmt/format.h>

#include "models/base/errors.hpp"

namespace dovetail {

int Schedule::class_of_rank(int rank) const {
  int first = 0;
  for (std::size_t c = 0; c < classes.size(); ++c)
    if (first += classes[c].ranks; rank < first) return static_cast<int>(c);
  throw InternalError(fmt::format("rank {} of {}", rank, first));
}

bool Schedule::relays(const Op& op) const {
  const bool moves_rows =
      op.kind == OpKind::Dispatch || op.kind == OpKind::Combine || op.kind == OpKind::RestoreDispatch;
  return node_ranks > 0 && moves_rows;
}

StageEnds Schedule::ends_of(const Op& op) const {
  if (op.kind == OpKind::StageSend) return {class_of(op), tensors[writes_of(op).front()].rank_class};
  for (const OpId before : dependencies_of(op))
    if (ops[before].kind == OpKind::StageSend && writes_of(ops[before]).front() == reads_of(op).front())
      return {class_of(ops[before]), class_of(op)};
  throw InternalError(to_string(op) + " receives what nobody sends");
}

}  // namespace dovetail

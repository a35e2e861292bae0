// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/launches.hpp"

#include "models/base/overloaded.hpp"
#include "models/schedule/op_table.hpp"

namespace dovetail {
namespace {

// Attention that is not in chunks has its projections, and what stands before them, in one op.
int small_kernels(const Op& op) {
  const int own = entry_of(op.kind).small.of(op.phase);
  const bool whole = op.kind == OpKind::Attention && op.chunk < 0;
  return whole ? own + entry_of(OpKind::Projection).small.of(op.phase) : own;
}

}  // namespace

int launches_of(const Op& op) {
  return std::visit(Overloaded{[&](const KernelWork& work) {
                                 return op.half == Half::Weights ? work.gemms
                                                                 : work.gemms + small_kernels(op) - work.elsewhere;
                               },
                               [](const ProfiledWork&) { return 1; }, [](const ExchangeWork&) { return 1; },
                               [](const CopyWork&) { return 1; }, [](HostWait) { return 0; }},
                    *op.work);
}

bool is_captured(Graphs graphs, OpKind kind) {
  if (graphs == Graphs::None) return false;
  if (graphs == Graphs::All || entry_of(kind).part == OpPart::Attention) return true;
  return graphs == Graphs::Router && kind == OpKind::Gate;
}

}  // namespace dovetail

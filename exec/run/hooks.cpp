// SPDX-License-Identifier: Apache-2.0
#include "exec/run/hooks.hpp"

#include <map>
#include <set>
#include <tuple>

#include "models/base/errors.hpp"
#include "models/schedule/op_table.hpp"

namespace dovetail::exec {
namespace {

// Tells whether an op is part of a layer's own computation; reductions of weight gradients are not.
bool in_layer(const Op& op) {
  const OpPart part = entry_of(op.kind).part;
  return part != OpPart::StepEnd && part != OpPart::Host;
}

// An exchange in several steps begins where rows come from and ends where they arrive.
bool is_staging(const Schedule& s, TensorId id) {
  return s.tensors[id].kind == TensorKind::Staging;
}
void add_exchange(const Schedule& s, OpId op, HookPoint before, HookPoint after, HookPlace& place) {
  if (!is_staging(s, s.reads_of(s.ops[op]).front())) place.before.push_back(before);
  if (!is_staging(s, s.writes_of(s.ops[op]).front())) place.after.push_back(after);
}

// The norm before the gate makes what the gate reads or, without norms, the gate itself does.
void add_moe(const Schedule& s, OpId op, HookPlace& place) {
  const Op& o = s.ops[op];
  const bool forward = o.phase == Phase::Forward;
  const TensorKind made = s.tensors[s.writes_of(o).front()].kind;
  if (o.kind == OpKind::Gate && forward && made == TensorKind::MoeInput) place.amid.push_back(HookPoint::BeforeMoe);
  if (o.kind == OpKind::Gate && !forward) place.after.push_back(HookPoint::AfterMoe);
  if (o.kind == OpKind::Decode && forward) place.after.push_back(HookPoint::AfterMoe);
  if (o.kind == OpKind::Decode && !forward) place.amid.push_back(HookPoint::BeforeMoe);
}
void add_moe_norms(const Schedule& s, std::vector<HookPlace>& places) {
  std::set<int> moe_layers;
  for (const Op& op : s.ops)
    if (op.kind == OpKind::Gate) moe_layers.insert(op.layer);
  for (const OpId i : s.ops.ids())
    if (const Op& op = s.ops[i]; op.kind == OpKind::Norm && op.phase == Phase::Forward &&
                                 s.tensors[s.writes_of(op).front()].kind == TensorKind::NormedMoeInput &&
                                 moe_layers.contains(op.layer))
      places[i].after.push_back(HookPoint::BeforeMoe);
}

}  // namespace

std::vector<HookPlace> hook_places(const Schedule& s) {
  std::vector<HookPlace> places(s.ops.size());
  std::map<std::tuple<Phase, int, int>, std::pair<std::size_t, std::size_t>> layers;  // first and last op
  for (const OpId i : s.ops.ids()) {
    const Op& op = s.ops[i];
    if (in_layer(op) && !op.recomputed)
      layers.try_emplace({op.phase, op.layer, op.micro_batch}, i, i).first->second.second = i;
    if (op.kind == OpKind::Dispatch) add_exchange(s, i, HookPoint::BeforeDispatch, HookPoint::AfterDispatch, places[i]);
    if (op.kind == OpKind::Combine) add_exchange(s, i, HookPoint::BeforeCombine, HookPoint::AfterCombine, places[i]);
    add_moe(s, i, places[i]);
  }
  add_moe_norms(s, places);
  for (const auto& [key, ends] : layers) {
    places[ends.first].before.push_back(HookPoint::BeforeLayer);
    places[ends.second].after.push_back(HookPoint::AfterLayer);
  }
  return places;
}

TensorId shown_at(HookPoint point, const Schedule& s, const Op& op) {
  const std::span<const TensorId> writes = s.writes_of(op);
  switch (point) {
    case HookPoint::BeforeLayer:
    case HookPoint::BeforeDispatch:
    case HookPoint::BeforeCombine:
      return s.reads_of(op).front();
    case HookPoint::AfterLayer:
      return op.exchange() != nullptr ? writes.front() : writes.back();
    case HookPoint::BeforeMoe:
    case HookPoint::AfterMoe:
    case HookPoint::AfterDispatch:
    case HookPoint::AfterCombine:
      return writes.front();
  }
  throw InternalError("a hook point that shows nothing");
}

}  // namespace dovetail::exec

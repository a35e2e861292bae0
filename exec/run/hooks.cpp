#include "exec/run/hooks.hpp"

#include <map>
#include <tuple>

#include "models/schedule/op_table.hpp"

namespace dovetail::exec {
namespace {

// Tells whether an op is part of a layer's own computation; reductions of weight gradients are not.
bool in_layer(const Op& op) {
  const OpPart part = entry_of(op.kind).part;
  return part != OpPart::StepEnd && part != OpPart::Host;
}

}  // namespace

std::vector<HookPlace> hook_places(const Schedule& s) {
  std::vector<HookPlace> places(s.ops.size());
  std::map<std::tuple<Phase, int, int>, std::pair<std::size_t, std::size_t>> layers;  // first and last op
  for (const OpId i : s.ops.ids()) {
    const Op& op = s.ops[i];
    if (in_layer(op) && !op.recomputed)
      layers.try_emplace({op.phase, op.layer, op.micro_batch}, i, i).first->second.second = i;
    if (op.kind == OpKind::Dispatch) places[i] = {HookPoint::BeforeDispatch, HookPoint::AfterDispatch};
    if (op.kind == OpKind::Combine) places[i] = {HookPoint::BeforeCombine, HookPoint::AfterCombine};
  }
  for (const auto& [key, ends] : layers) {
    places[ends.first].before = HookPoint::BeforeLayer;
    places[ends.second].after = HookPoint::AfterLayer;
  }
  return places;
}

}  // namespace dovetail::exec

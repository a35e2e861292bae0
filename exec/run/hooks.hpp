// SPDX-License-Identifier: Apache-2.0
// Functions of the user's own at the points of a layer, called while a step is really executed: the six of FSMoE's MoE
// layer (section 3.1: before and after the MoE part, dispatch and combine), and two around the whole layer.
#pragma once
#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <variant>
#include <vector>

#include "models/schedule/schedule.hpp"

namespace dovetail::exec {

// Layer: with its attention, in MoE layers and others. Moe: from the gate to the decode, in MoE layers; FSMoE's
// BeforeMoeStart and BeforeMoeEnd.
enum class HookPoint {
  BeforeLayer,
  AfterLayer,
  BeforeMoe,
  AfterMoe,
  BeforeDispatch,
  AfterDispatch,
  BeforeCombine,
  AfterCombine
};
inline constexpr Names<HookPoint, 8> hook_point_names{{{"before_layer", HookPoint::BeforeLayer},
                                                       {"after_layer", HookPoint::AfterLayer},
                                                       {"before_moe", HookPoint::BeforeMoe},
                                                       {"after_moe", HookPoint::AfterMoe},
                                                       {"before_dispatch", HookPoint::BeforeDispatch},
                                                       {"after_dispatch", HookPoint::AfterDispatch},
                                                       {"before_combine", HookPoint::BeforeCombine},
                                                       {"after_combine", HookPoint::AfterCombine}}};

struct HookCall {
  HookPoint point;
  // In the backward pass the points are those of the mirrored ops: the layer and its MoE part begin at the decode.
  // Forward ops that the backward pass repeats (plan.recompute) are called as those of the forward pass. A layer's
  // input is not, and neither is the MoE part's where it was kept: as it had become.
  Phase phase;
  int layer;
  int chunk;  // -1: not cut into chunks
  int rank;
  // The rows at this point, (rows, M) unless compressed, laid out as in models/schedule/operands.md. They may be
  // changed in place, and what comes after the point goes on with what they have become; their size may not change.
  //
  //   point           forward                              backward
  //   before_moe      what the gate and the encode read    the gradient of what after_moe has shown
  //   after_moe       what the decode has written          the gradient of what before_moe has shown
  //   others          before an op its first operand, after it its last result (an exchange: the rows that arrived)
  //
  // - With plan.scope block the MoE points have the tokens of one chunk at a time; else all tokens of the rank.
  // - In steps of layers alone (workload.extent layers) what the gate reads is also the residual that the decode adds.
  //   With norms the residual is not what the gate reads, and the decode adds it all the same. Gradients are alike.
  // - Shared experts read what before_moe has left. They are no part of after_moe, in neither pass, so that a hook that
  //   changes what they read cannot give its derivative for them.
  // - A hook that changes values in the forward pass has to apply its derivative at the mirrored point of the backward
  //   pass: one that scales by a at before_moe scales by a at after_moe there.
  std::variant<std::span<float>, std::span<double>> values;
};

// Calls come from the thread of the op's stream and may come from several threads at once, from all ranks of this
// process; the op waits for them, and their time counts as its work. An exception ends the step like one of the op.
// A point whose op a schedule lacks (dispatch over one rank) is not reached; an exchange in several steps is one pair
// of points. Empty functions cost nothing. The reference knows no hooks: a run that checks its numerics says how far
// hooks that change values lead away from it. Only hosts call hooks, ranks as threads and over MPI; devices refuse
// them.
using HookFunction = std::function<void(const HookCall&)>;
struct Hooks {
  std::array<HookFunction, hook_point_names.size()> functions;
  bool empty() const {
    return std::ranges::none_of(functions, [](const HookFunction& f) { return static_cast<bool>(f); });
  }
  HookFunction& at(HookPoint point) { return functions[static_cast<std::size_t>(point)]; }
  const HookFunction& at(HookPoint point) const { return functions[static_cast<std::size_t>(point)]; }
};

// By op: the points right before and right after it, in their order, and those amid it, once it has summed up what it
// works on.
struct HookPlace {
  std::vector<HookPoint> before, amid, after;
};
std::vector<HookPlace> hook_places(const Schedule& schedule);

// The tensor that is shown at a point of an op.
TensorId shown_at(HookPoint point, const Schedule& schedule, const Op& op);

}  // namespace dovetail::exec

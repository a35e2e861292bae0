// Functions of the user's own at the six points of an MoE layer, called while a step is really executed.
#pragma once
#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "models/schedule/schedule.hpp"

namespace dovetail::exec {

enum class HookPoint { BeforeLayer, AfterLayer, BeforeDispatch, AfterDispatch, BeforeCombine, AfterCombine };
inline constexpr Names<HookPoint, 6> hook_point_names{{{"before_layer", HookPoint::BeforeLayer},
                                                       {"after_layer", HookPoint::AfterLayer},
                                                       {"before_dispatch", HookPoint::BeforeDispatch},
                                                       {"after_dispatch", HookPoint::AfterDispatch},
                                                       {"before_combine", HookPoint::BeforeCombine},
                                                       {"after_combine", HookPoint::AfterCombine}}};

struct HookCall {
  HookPoint point;
  // In the backward pass the points are those of the mirrored ops: the layer begins at its decode. Exchanges that the
  // backward pass repeats (plan.recompute) are called as those of the forward pass; a layer's input is not, because it
  // was kept as it had become.
  Phase phase;
  int layer, chunk, rank;
  // The first operand that the op at this point reads, or after it the last one that it writes, laid out as in
  // models/schedule/operands.md. It may be changed in place; its size may not.
  std::variant<std::span<float>, std::span<double>> values;
};

// Calls come from the thread of the op's stream and may come from several threads at once, from all ranks of this
// process; the op waits for them, and their time counts as its work. An exception ends the step like one of the op.
// A point whose op a schedule lacks (dispatch over one rank) is not reached. Empty functions cost nothing.
using HookFunction = std::function<void(const HookCall&)>;
struct Hooks {
  std::array<HookFunction, hook_point_names.size()> functions;
  bool empty() const {
    return std::ranges::none_of(functions, [](const HookFunction& f) { return static_cast<bool>(f); });
  }
  HookFunction& at(HookPoint point) { return functions[static_cast<std::size_t>(point)]; }
  const HookFunction& at(HookPoint point) const { return functions[static_cast<std::size_t>(point)]; }
};

// By op: the points right before and right after it.
struct HookPlace {
  std::optional<HookPoint> before, after;
};
std::vector<HookPlace> hook_places(const Schedule& schedule);

}  // namespace dovetail::exec

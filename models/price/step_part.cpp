// SPDX-License-Identifier: Apache-2.0
#include "models/price/step_part.hpp"

#include <algorithm>

#include "models/schedule/op_table.hpp"

namespace dovetail {
namespace {

std::optional<StepPart> part_of_communication(const OpEntry& entry) {
  if (entry.kind == OpKind::GatherExpertWeights || entry.kind == OpKind::ShadowWeights) return StepPart::Gradients;
  switch (entry.part) {
    case OpPart::StepEnd:
      return StepPart::Gradients;
    case OpPart::Stages:
      return StepPart::StageMessages;
    case OpPart::Experts:
    case OpPart::Routing:
      return StepPart::RowExchanges;
    case OpPart::Attention:
    case OpPart::DenseFfn:
    case OpPart::Ends:
      return StepPart::ModelParallel;
    case OpPart::Host:
      break;
  }
  return std::nullopt;
}

}  // namespace

std::optional<StepPart> part_of(OpKind kind) {
  const OpEntry& entry = entry_of(kind);
  if (entry.communicates) return part_of_communication(entry);
  if (kind == OpKind::Offload || kind == OpKind::Prefetch) return StepPart::HostCopies;
  switch (entry.part) {
    case OpPart::Attention:
      return StepPart::Attention;
    case OpPart::Routing:
      return StepPart::Routing;
    case OpPart::Experts:
      return StepPart::Experts;
    case OpPart::DenseFfn:
      return StepPart::DenseFfn;
    case OpPart::Ends:
      return StepPart::Ends;
    case OpPart::StepEnd:
      return StepPart::Update;
    case OpPart::Stages:
    case OpPart::Host:
      break;
  }
  return std::nullopt;
}

bool make_free(StepPart part, PricedSchedule& priced) {
  if (part == StepPart::Launches) {
    const bool any = std::ranges::any_of(priced.launch, [](Seconds launch) { return launch > Seconds(0); });
    priced.launch = {};
    return any;
  }
  const Schedule& schedule = *priced.schedule;
  bool any = false;
  for (const OpId op : schedule.ops.ids()) {
    if (part_of(schedule.ops[op].kind) != part) continue;
    any = any || priced.duration[op] > Seconds(0);
    priced.fixed[op] = priced.duration[op] = Seconds(0);
    priced.for_each_activity(op, [&](ActivityId activity) {
      for (Demand& demand : priced.demands_of(activity)) demand.seconds = Seconds(0);
    });
  }
  return any;
}

}  // namespace dovetail

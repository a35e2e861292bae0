// SPDX-License-Identifier: Apache-2.0
// The parts of a training step that an explanation speaks of, and a step in which one of them takes no time.
#pragma once
#include <cstdint>
#include <optional>

#include "models/price/priced_schedule.hpp"
#include "models/schedule/op_kind.hpp"

namespace dovetail {

enum class StepPart : std::uint8_t {
  RowExchanges,   // between ranks that have tokens and ranks that have their experts
  ModelParallel,  // collectives of ranks that share the dense part
  Gradients,      // their sums over replicas, and weights gathered
  StageMessages,  // between pipeline stages
  HostCopies,     // of rows, to the host and back
  Attention,
  Routing,  // gate, encoding, decoding, norms
  Experts,
  DenseFfn,
  Ends,  // embedding, output head, loss
  Update,
  Launches  // by the host
};
inline constexpr Names<StepPart, 12> step_part_names{{{"row_exchanges", StepPart::RowExchanges},
                                                      {"model_parallel", StepPart::ModelParallel},
                                                      {"gradients", StepPart::Gradients},
                                                      {"stage_messages", StepPart::StageMessages},
                                                      {"host_copies", StepPart::HostCopies},
                                                      {"attention", StepPart::Attention},
                                                      {"routing", StepPart::Routing},
                                                      {"experts", StepPart::Experts},
                                                      {"dense_ffn", StepPart::DenseFfn},
                                                      {"ends", StepPart::Ends},
                                                      {"update", StepPart::Update},
                                                      {"launches", StepPart::Launches}}};

// None: ops of this kind only wait.
std::optional<StepPart> part_of(OpKind kind);

// Ops of the part take no time from then on; nothing else changes. False: they took none before.
bool make_free(StepPart part, PricedSchedule& priced);

}  // namespace dovetail

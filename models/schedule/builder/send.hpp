// SPDX-License-Identifier: Apache-2.0
// How the rows of one chunk get to their experts: over the expert-parallel group, then gathered.
#pragma once
#include "models/schedule/builder/ring.hpp"
#include "models/schedule/builder/step_context.hpp"

namespace dovetail::builder {

struct SendKinds {
  OpKind exchange, gather;
  TensorKind exchanged, gathered;
};
inline constexpr SendKinds forward_send{OpKind::Dispatch, OpKind::EspAllGather, TensorKind::Dispatched,
                                        TensorKind::ExpertInput};
inline constexpr SendKinds backward_send{OpKind::Combine, OpKind::EspReduceScatter, TensorKind::ExpertOutput,
                                         TensorKind::ExpertPartial};
inline constexpr SendKinds restoring_send{OpKind::RestoreDispatch, OpKind::RestoreGather, TensorKind::Dispatched,
                                          TensorKind::ExpertInput};

struct SendRings {
  Ring exchanged, gathered;
};

// Returns the tensor that the rows `input` of `chunk` end in; `input` itself where both groups have one rank. Kind,
// stream and work of `chunk` (an op) do not matter.
TensorId send_rows(StepContext& c, const Op& chunk, const SendKinds& kinds, TensorId input, SendRings& rings);

}  // namespace dovetail::builder

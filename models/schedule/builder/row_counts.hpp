// SPDX-License-Identifier: Apache-2.0
// Routed messages: how many rows each expert takes from each rank, which ranks tell each other before they send rows.
#pragma once
#include "models/schedule/builder/step_context.hpp"

namespace dovetail::builder {

// Whether messages are as large as what is routed.
bool sends_routed(const StepContext& c);

// The tensor of the rank's own counts, which the gate writes; -1 with padded messages.
TensorId add_row_counts(StepContext& c, int layer);
// After the gate: its counts go to the experts' ranks, and are gathered over the shards of an expert. `routing`: its
// choices, for exchanges that send a token to a node once.
void exchange_counts(StepContext& c, int layer, TensorId row_counts, TensorId routing);
// The host reads them, and only then knows how much it sends and computes. Every later op waits for it.
void wait_for_counts(StepContext& c, int layer);

// An op that moves `rows` reads these and, with routed messages, the counts of what it sends and of what arrives. If it
// sends a token to a node once, it also reads its rank's choices and, on the way back, which tokens the rows are of.
TensorIds with_counts(const StepContext& c, const Op& op, TensorId rows);
// Such an op writes the rows that arrive and, from tokens to experts, which tokens they are of.
TensorIds with_tokens(StepContext& c, const Op& op, TensorId arriving);
// The counts that an op which works on rows reads, at the end of `reads`; nothing with padded messages.
void append_counts(const StepContext& c, int layer, TensorIds& reads);

}  // namespace dovetail::builder

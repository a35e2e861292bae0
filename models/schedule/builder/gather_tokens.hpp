// SPDX-License-Identifier: Apache-2.0
// Collectives of tokens over the model-parallel ranks: gathers before what these share, and sums after it.
#pragma once
#include "models/schedule/builder/step_context.hpp"

namespace dovetail::builder {

// From `own` (T, M), of this rank's tokens, to a new tensor (L, width) of `kind`, of all ranks' in group order. `own`
// itself where a group has one rank.
TensorId gather_tokens(StepContext& c, TensorKind kind, int layer, TensorId own, std::int64_t width);
TensorId gather_tokens(StepContext& c, TensorKind kind, int layer, TensorId own);  // of width M

// Adds up the ranks' parts `partial` (L, width) of the tokens' rows: `sum` (T, width) is of this rank's tokens. It is a
// reduce-scatter or, where ranks repeat tokens (T = L), an all-reduce. `op` gives the place in the step; `work` is of
// the tokens that are summed.
void sum_tokens(StepContext& c, Op op, const OpWork& work, TensorId partial, TensorId sum, std::int64_t width);
void sum_tokens(StepContext& c, Phase phase, int layer, TensorId partial, TensorId sum);  // all tokens, of width M

}  // namespace dovetail::builder

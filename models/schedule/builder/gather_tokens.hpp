// The all-gather of tokens over the model-parallel ranks, before what they share.
#pragma once
#include "models/schedule/builder/step_context.hpp"

namespace dovetail::builder {

// From `own` (T, M), of this rank's tokens, to a new tensor (L, width) of `kind`, of all ranks' in group order. `own`
// itself where a group has one rank.
TensorId gather_tokens(StepContext& c, TensorKind kind, int layer, TensorId own, std::int64_t width);
TensorId gather_tokens(StepContext& c, TensorKind kind, int layer, TensorId own);  // of width M

}  // namespace dovetail::builder

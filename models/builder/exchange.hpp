// The all-to-all of one chunk over the expert-parallel group.
#pragma once
#include "models/builder/step_context.hpp"

namespace dovetail::builder {

// `op` is a Dispatch or Combine of a chunk without its work. Returns the tensor of `kind` that the exchange ends in, or
// `input` where a rank would exchange with itself only.
TensorId exchange(StepContext& c, const Op& op, TensorId input, TensorKind kind);

}  // namespace dovetail::builder

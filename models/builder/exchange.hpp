// The all-to-all of one chunk over the expert-parallel group.
#pragma once
#include "models/builder/step_context.hpp"

namespace dovetail::builder {

// `op` is a Dispatch or Combine of a chunk without its work. Returns the tensor of `kind` that the exchange ends in.
// It takes over the memory of `buffer`, if that is not -1.
TensorId exchange(StepContext& c, const Op& op, TensorId input, TensorKind kind, TensorId buffer = -1);

}  // namespace dovetail::builder

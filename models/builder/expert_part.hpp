// The experts of one layer: each chunk is dispatched, gathered, worked on, scattered and combined.
#pragma once
#include <functional>

#include "models/builder/step_context.hpp"

namespace dovetail::builder {

// What the forward pass leaves for the backward pass, by forward chunk.
struct SavedExperts {
  TensorIds input, hidden;
  TensorId weights = -1;  // of the layer: what the experts worked with
};

// From encoded.i to combined.i. Where a group has one rank its collective is left out.
TensorIds experts_forward(StepContext& c, int layer, const TensorIds& encoded, SavedExperts& saved);

// From d_combined.j to d_encoded.j. `after_sends` adds what is enqueued once every chunk's gradient has been sent.
TensorIds experts_backward(StepContext& c, int layer, const TensorIds& d_combined, const SavedExperts& saved,
                           const std::function<void()>& after_sends);

}  // namespace dovetail::builder

// SPDX-License-Identifier: Apache-2.0
// The experts of one layer: each chunk is dispatched, gathered, worked on, scattered and combined.
#pragma once
#include <functional>

#include "models/schedule/builder/restore_part.hpp"

namespace dovetail::builder {

// Makes the tensor of a chunk when its turn to be sent comes, already compressed if the plan sends it so.
using ChunkSource = std::function<TensorId(int chunk)>;

// From encoded.i to combined.i, both as they are sent (see exchange.hpp). Scores in `saved` are sent after their rows.
// If a group has one rank, its collective is left out. `after_sends` adds what is enqueued once every chunk has been
// sent.
TensorIds experts_forward(StepContext& c, int layer, const ChunkSource& encoded, SavedExperts& saved,
                          const std::function<void()>& after_sends);

// By chunk, as they come; the scores' gradients -1 unless the experts apply these.
struct BroughtRows {
  TensorIds rows, d_scores;
};
// From d_combined.j to d_encoded.j, likewise.
BroughtRows experts_backward(StepContext& c, int layer, const ChunkSource& d_combined, const SavedExperts& saved,
                             const std::function<void()>& after_sends);

}  // namespace dovetail::builder

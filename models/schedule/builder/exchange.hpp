// SPDX-License-Identifier: Apache-2.0
// The all-to-all of one chunk over the expert-parallel group, and the conversion of rows to and from the format that
// they are sent in.
#pragma once
#include "models/schedule/builder/step_context.hpp"

namespace dovetail::builder {

// `op` is in all of these the Dispatch or Combine of a chunk (or what sends it again) without its work.

// Each of them returns the tensor that it ends in, which takes over the memory of `buffer`, if that is not -1.

// Rows as this exchange sends them: compressed or, where the plan sends them as they are, `input` itself.
TensorId compress(StepContext& c, const Op& op, TensorId input, TensorId buffer = {});

// A tensor of `kind` or, where `input` is compressed, compressed too. `input` where a rank would exchange with itself
// only.
TensorId exchange(StepContext& c, const Op& op, TensorId input, TensorKind kind, TensorId buffer = {});

// The scores of the rows, one fp32 number each, sent by themselves on the stream of `op`; or their gradients.
TensorId exchange_scores(StepContext& c, const Op& op, TensorId input, TensorKind kind);

// The scores of the rows of all ranks that share the experts' shards; or the sums of their gradients, which each of the
// shards has a part of. `input` where nobody shares them.
TensorId share_scores(StepContext& c, const Op& op, TensorId input);

// Makes a tensor of `kind` of compressed rows; others are returned as they are. `copies`: ranks whose rows these are
// together, after a gather.
TensorId decompress(StepContext& c, const Op& op, TensorId input, TensorKind kind, std::int64_t copies = 1,
                    TensorId buffer = {});

}  // namespace dovetail::builder

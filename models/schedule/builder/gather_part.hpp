// SPDX-License-Identifier: Apache-2.0
// With zero 1: all-gathers of one stage's weights, each rank giving the shard that it has updated.
#pragma once
#include "models/schedule/builder/step_context.hpp"

namespace dovetail::builder {

class GatherPart {
 public:
  explicit GatherPart(StepContext& c);  // of the stage entered

  // The weights that a layer needs and, on the stage's first layer, the embedding, norms and routers, on its last one
  // the output head; nothing that was gathered before. The ops belong to `phase`.
  void gather(int layer, Phase phase);
  // A layer's and, if the stage has another one after it, that one's, in the forward pass. All layers of multi-token
  // prediction go together, since the first of them comes after the output head.
  void gather_ahead(int layer);
  void gather_all();  // after the update

 private:
  bool covers(int layer) const;  // the slice to be gathered next has weights of the layer
  void gather_slice(int layer, Phase phase);
  void gather_experts(int layer, Phase phase);
  void gather_replicated(int layer, Phase phase);
  void add(GroupKind group, int layer, Phase phase, const TensorIds& weights, RowRange range);

  StepContext& c_;
  std::size_t left_;       // slices of the dense gradients, which end with the first layer's
  std::int64_t elements_;  // in those slices
  int next_ = 0;           // of the stage's layers
};

}  // namespace dovetail::builder

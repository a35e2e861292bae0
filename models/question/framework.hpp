// SPDX-License-Identifier: Apache-2.0
// The share of a training framework in a step, beside the work of the model: passes over gradients and weights, waits,
// and memory of its own. The figures are read off its code (data/frameworks). Its work on the host is
// price/host_profile.hpp.
#pragma once
#include <string>
#include <vector>

#include "models/base/units.hpp"

namespace dovetail {

// Bytes read plus written for each element, where gradients add up in fp32.
struct FrameworkPasses {
  double gradients = 0;  // of all gradients that a rank holds: set to zero, looked through for NaN, scaled
  double updated = 0;    // of those that a rank updates: scaled where they are clipped
  double weights = 0;    // of the weights that a rank updates: brought to the format of products
  double logits = 0;     // of the logits, by the loss in both passes; 0: a kernel that reads them twice and writes once
};

struct TrainingFramework {
  std::string name;  // empty: none, and nothing of what follows
  std::string source;
  FrameworkPasses passes;
  // The gradient of the embedding is made as a matrix of its own in each micro-batch: set to zero, and added to the
  // gradients that add up.
  bool dense_embedding_gradient = false;
  // Without overlap the updated weights are gathered once for each optimizer, those of dense parts and of experts.
  bool gathers_twice = false;
  // The host looks at the loss of each micro-batch, and at the norm of the gradients, before it goes on.
  bool waits_for_loss = false, waits_for_norm = false;
  // The host looks at the rows that came, before it issues their experts, where tokens go to each node once.
  bool waits_for_rows = false;
  // Memory. Layers whose products add to a gradient keep an empty one for the framework, in the weights' format: one
  // for each different shape of weights.
  bool empty_weight_gradients = false;
  Bytes workspace;  // of libraries, for as long as the training lasts
  // With products in fp8: bytes of their weights' copies, for each weight, and whether their inputs are kept in fp8.
  double fp8_weights = 0;
  bool fp8_inputs = false;
  double score_copies = 0;  // bytes for each score, beside the probabilities, if attention stores its scores
  // Experts and dense parts without a gate: bytes for each activation, beside it, that the derivative reads; and in
  // experts for its product with the score.
  double activation_inputs = 0, weighted_activations = 0;
  double dropout_masks = 0;  // bytes for each element of the sums of a layer, which dropout keeps
  double logits_copies = 0;  // of the logits, as bytes for each, beside them while the loss is worked out
  // Nine of ten steps take at most so many times what is counted of them, even if all costs are right: the slowest GPU,
  // small kernels, interruptions. It widens ranges and changes no step.
  double left_out = 1;
  std::vector<std::string> unfused;  // options that would fuse its kernels and are off
};

}  // namespace dovetail

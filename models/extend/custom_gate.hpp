// SPDX-License-Identifier: Apache-2.0
// A gate of the user's own, where tokens choose experts (FSMoE section 3.1: Gate). A class that derives from CustomGate
// takes the place of the workload's gate.
//
// - Numbers are double, whatever the run's format: the library converts. All arrays are row-major.
// - Spans belong to the library and are valid during the call alone.
// - Functions are called from many threads at once, for other ranks and layers, and for one step several times. They
//   must give the same for the same arguments. Results may not depend on which tokens one call has together, because
//   plans cut tokens into chunks; a token's number tells it apart from others.
// - An exception ends the step with the name of the op.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "models/extend/stated_work.hpp"

namespace dovetail {

struct GateSizes {
  std::int64_t hidden = 0;   // M, elements of a token
  std::int64_t experts = 0;  // E, of the whole model
  std::int64_t top_k = 0;    // k, choices of a token
};

// The tokens of one call: those of a rank and a micro-batch or, with plan.scope block, of one of its chunks.
struct GateTokens {
  int layer = 0;                 // of the model, from 0 on
  std::int64_t first = 0;        // number of the first token, over all ranks and micro-batches of the step
  std::int64_t count = 0;        // T
  std::span<const double> rows;  // (T, M)
};

class CustomGate {
 public:
  virtual ~CustomGate() = default;
  virtual std::string name() const = 0;

  // Numbers that the gate learns; every rank has all of them. 0: none. (Steps keep at least one number.)
  virtual std::int64_t parameters(const GateSizes& sizes) const = 0;
  // The standard deviation of the random number that parameter `index` starts a run with.
  virtual double deviation(const GateSizes& sizes, std::int64_t index) const;

  // Writes the experts (T, k) of every token, best first: 0 to E - 1. Choices past an expert's capacity are dropped,
  // all first choices before all second ones, in token order.
  virtual void choose(const GateSizes& sizes, const GateTokens& tokens, std::span<const double> parameters,
                      std::span<std::int32_t> experts) const = 0;

  // Writes the scores (T, k) that weight the results of these experts. A run that is compared with the reference gives
  // choices that the reference has made.
  virtual void score(const GateSizes& sizes, const GateTokens& tokens, std::span<const double> parameters,
                     std::span<const std::int32_t> experts, std::span<double> scores) const = 0;

  // From the loss's gradient by the scores (T, k; 0 where a choice was dropped) that by the tokens (T, M) and by the
  // parameters. Both are added to. Choices have no gradient.
  virtual void score_backward(const GateSizes& sizes, const GateTokens& tokens, std::span<const double> parameters,
                              std::span<const std::int32_t> experts, std::span<const double> d_scores,
                              std::span<double> d_tokens, std::span<double> d_parameters) const = 0;

  // The work of choose() and score() together, and of score_backward(), on so many tokens of a rank.
  virtual StatedWork forward_work(const GateSizes& sizes, std::int64_t tokens) const = 0;
  virtual StatedWork backward_work(const GateSizes& sizes, std::int64_t tokens) const = 0;
};

}  // namespace dovetail

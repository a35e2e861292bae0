// SPDX-License-Identifier: Apache-2.0
// Logits of gates by cosines, and back: part of the gate op. Weights: Wp (M, P), embeddings (P, E), theta.
#pragma once
#include "exec/device/device_op.hpp"

namespace dovetail::exec {

// Values of the forward pass that the backward pass needs.
template <class Number>
struct CosineOperands {
  const Number *weights = nullptr, *projected = nullptr, *token_length = nullptr, *expert_length = nullptr,
               *cosines = nullptr;
};

// To logits (T, E).
template <class Scalar>
CosineOperands<Wide<Scalar>> record_cosines(const DeviceOp<Scalar>& op, const Scalar* tokens, const Scalar* router,
                                            Wide<Scalar>* logits);

// Adds to the results of a backward gate op.
template <class Scalar>
void record_cosine_backward(const DeviceOp<Scalar>& op, const Scalar* d_logits, const CosineOperands<Wide<Scalar>>& c);

}  // namespace dovetail::exec

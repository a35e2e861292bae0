// SPDX-License-Identifier: Apache-2.0
// The floating-point operations that training a model takes, however it is trained: what MFU counts.
#pragma once
#include "models/question/experiment.hpp"

namespace dovetail {

// By token, of the modelled part of the step: the trained layers and, with extent model, the output head. A
// multiply-add is two. Looking up an embedding takes none. Recomputation, padding and dropped tokens change nothing.
struct ModelFlops {
  double active_parameters = 0;  // those of products that a token goes through: top-k experts, shared experts
  double of_parameters = 0;      // 6 x active_parameters; forward alone 2 x
  double of_attention = 0;       // causal: 3 s heads (query size + value size) a layer, half of the whole square
  double per_token() const { return of_parameters + of_attention; }
};
ModelFlops model_flops(const Experiment& experiment);

}  // namespace dovetail

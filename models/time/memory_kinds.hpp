// SPDX-License-Identifier: Apache-2.0
// Kinds of what the memory of a rank holds.
#pragma once
#include <array>

#include "models/base/names.hpp"
#include "models/schedule/op.hpp"

namespace dovetail {

// Stream: inputs, outputs and sums of layers, with the results of norms. Exchanged: rows on their way between ranks,
// and what ranks gather of each other. Framework: what the training framework keeps for itself.
enum class MemoryKind {
  Weights,
  Gradients,
  Optimizer,
  Stream,
  Attention,
  DenseFfn,
  Experts,
  Routing,
  Exchanged,
  Logits,
  Framework
};
inline constexpr Names<MemoryKind, 11> memory_kind_names{{{"weights", MemoryKind::Weights},
                                                          {"gradients", MemoryKind::Gradients},
                                                          {"optimizer", MemoryKind::Optimizer},
                                                          {"layer stream", MemoryKind::Stream},
                                                          {"attention", MemoryKind::Attention},
                                                          {"dense ffn", MemoryKind::DenseFfn},
                                                          {"experts", MemoryKind::Experts},
                                                          {"routing", MemoryKind::Routing},
                                                          {"exchanged", MemoryKind::Exchanged},
                                                          {"logits", MemoryKind::Logits},
                                                          {"framework", MemoryKind::Framework}}};
// The kind of a tensor, by what it holds; gradients of activations are counted with these.
MemoryKind memory_kind_of(const Tensor& tensor);

// Device memory by kind.
using MemoryByKind = std::array<Bytes, memory_kind_names.size()>;

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
// How a layer's gate scores experts and chooses among them. Formulas: operands.md.
#pragma once
#include <array>
#include <string_view>
#include <utility>

namespace dovetail {

// Softmax: top-k of softmax(x Wg). Gshard: noisy top-k, softmax over the k kept. Sigmoid: scores sigmoid(x Wg) (BASE
// layers, StableMoE). XMoe and Cosine: cosines of a projection of x with expert embeddings over a learned temperature
// (X-MoE; Tutel). ExpertChoice: each expert takes its best C of a rank's tokens. SoftMoe: every slot is a weighted mean
// of the tokens, every output one of the slots.
enum class GateKind { Softmax, Gshard, Sigmoid, XMoe, Cosine, ExpertChoice, SoftMoe };
inline constexpr std::array<std::pair<std::string_view, GateKind>, 7> gate_kind_names{
    {{"softmax", GateKind::Softmax},
     {"gshard", GateKind::Gshard},
     {"sigmoid", GateKind::Sigmoid},
     {"x_moe", GateKind::XMoe},
     {"cosine", GateKind::Cosine},
     {"expert_choice", GateKind::ExpertChoice},
     {"soft_moe", GateKind::SoftMoe}}};

struct Gate {
  GateKind kind = GateKind::Softmax;
  int projection = 0;              // XMoe, Cosine: elements of the projection; 0: the published 16 or 256, at most M
  int noise_seed = 1;              // Gshard: the noise is a function of it, the layer, the token and the expert
  bool renormalise = false;        // a token's scores are divided by their sum, drops included (Mixtral)
  bool batch_prioritised = false;  // slots by a token's best score, not in token order

  bool token_choice() const { return kind != GateKind::ExpertChoice && kind != GateKind::SoftMoe; }
  bool cosine() const { return kind == GateKind::XMoe || kind == GateKind::Cosine; }
  friend bool operator==(const Gate&, const Gate&) = default;
};

}  // namespace dovetail

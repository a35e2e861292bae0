// A Mixture-of-Experts transformer: the sizes that decide work, traffic and memory.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/time_profile.hpp"

namespace dovetail {

// Ffn: two GEMMs with ReLU between. Gated: Mixtral's SwiGLU, three GEMMs.
enum class ExpertKind { Ffn, Gated };
inline constexpr std::array<std::pair<std::string_view, ExpertKind>, 2> expert_kind_names{
    {{"ffn", ExpertKind::Ffn}, {"gated", ExpertKind::Gated}}};

// Grouped-query attention: kv_heads < heads. head_size need not be hidden / heads.
struct Attention {
  int heads = 0;
  int kv_heads = 0;
  int head_size = 0;
};

// Every layer is attention followed by an MoE feed-forward part.
struct Model {
  std::string name;
  std::string source;  // where the sizes come from
  int layers = 0;
  int hidden = 0;  // M, the embedding size
  Attention attention;
  int experts = 0;  // E
  int top_k = 0;
  int expert_hidden = 0;  // H
  ExpertKind expert_kind = ExpertKind::Ffn;
  int vocabulary = 0;  // kept for reports; embedding and head are not modelled
  // Where given, measured times in place of modelled ones: of a rank's experts by all the rows they take, of the gate
  // by the rank's tokens.
  TimeProfile expert_profile = {};
  TimeProfile gate_profile = {};

  int expert_gemms() const { return expert_kind == ExpertKind::Gated ? 3 : 2; }  // g of spec: GEMMs per expert
};

}  // namespace dovetail

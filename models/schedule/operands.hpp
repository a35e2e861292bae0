// SPDX-License-Identifier: Apache-2.0
// The operands of an op by name: the name of an operand is that of the tensor it usually is.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/errors.hpp"
#include "models/schedule/op_kind.hpp"
#include "models/schedule/tensor_kind.hpp"

namespace dovetail {

// The tensors that one operand may be: those of a kind, or their gradients, or others that take their place where a
// group of ranks has one member, or where rows are compressed.
class Role {
 public:
  constexpr Role(TensorKind kind) : values_(only(kind)) {}

  constexpr bool covers(TensorKind kind, bool gradient) const { return (gradient ? gradients_ : values_).has(kind); }
  template <class Tensor>
  constexpr bool covers(const Tensor& tensor) const {
    return covers(tensor.kind, tensor.gradient);
  }

  friend constexpr Role operator|(Role a, Role b) { return {a.values_ | b.values_, a.gradients_ | b.gradients_}; }
  friend constexpr Role gradient_of(Role role) {
    if (role.gradients_ != Kinds{}) throw InternalError("the gradient of a gradient");
    return {{}, role.values_};
  }

 private:
  // A bit for each kind.
  struct Kinds {
    std::array<std::uint64_t, 2> words{};
    constexpr bool has(TensorKind kind) const { return ((words[word(kind)] >> place(kind)) & 1U) != 0; }
    friend constexpr Kinds operator|(Kinds a, Kinds b) { return {{a.words[0] | b.words[0], a.words[1] | b.words[1]}}; }
    friend constexpr bool operator==(Kinds, Kinds) = default;
  };
  static_assert(tensor_table.size() <= 128);
  static constexpr std::size_t word(TensorKind kind) { return static_cast<std::size_t>(kind) / 64; }
  static constexpr unsigned place(TensorKind kind) { return static_cast<unsigned>(kind) % 64; }
  static constexpr Kinds only(TensorKind kind) {
    Kinds kinds;
    kinds.words[word(kind)] = std::uint64_t{1} << place(kind);
    return kinds;
  }
  constexpr Role(Kinds values, Kinds gradients) : values_(values), gradients_(gradients) {}

  Kinds values_, gradients_;
};
constexpr Role operator|(TensorKind a, TensorKind b) {
  return Role(a) | Role(b);
}
constexpr Role gradient_of(TensorKind kind) {
  return gradient_of(Role(kind));
}
std::string to_string(Role role);  // "expert_weights or gathered_weights"

// The roles that several tensors can have.
namespace roles {
using enum TensorKind;
inline constexpr Role normed = NormedInput | NormedMoeInput, before_norm = LayerInput | MoeInput;
inline constexpr Role before_mtp_norm = LayerInput | NormedInput;
inline constexpr Role mtp_input = MtpInput | GatheredMtpInput, mtp_output = LayerInput | MtpColumns;
inline constexpr Role own_attention_input = LayerInput | NormedInput,
                      attention_input = own_attention_input | AttentionInput, low_ranks = LowRanks | GatheredLowRanks,
                      query_key_normed = QueryKeyValue | LowRanks, attended = AttentionPartial | AttentionOutput,
                      softmax = LogSumExp | AttentionProbabilities,
                      d_attention_partial = gradient_of(AttentionPartial | MoeInput),
                      through_attention = AttentionSumGradient | gradient_of(AttentionInput),
                      moe_input = MoeInput | NormedMoeInput, ffn_input = FfnInput | moe_input,
                      ffn_output = FfnPartial | FfnOutput, d_ffn_partial = gradient_of(FfnPartial | LayerInput),
                      through_ffn = FfnSumGradient | gradient_of(FfnInput);
inline constexpr Role head_input = HeadInput | NormedInput, router_gradient = RouterGradient | ReplicatedGradients,
                      d_normed = gradient_of(HeadInput | normed) | through_attention | through_ffn,
                      past_norm = gradient_of(MoeInput | LayerInput) | OutputGradient;
inline constexpr Role summands = LayerInput | attended | MoeInput | ffn_output,
                      d_output = gradient_of(LayerInput | MoeInput) | through_attention,
                      d_summands = d_output | through_ffn | gradient_of(NormedMoeInput);
inline constexpr Role encoding = Routing | RoutingMask, decoding = Routing | CombineWeights,
                      d_scores = ScoreGradient | gradient_of(CombineWeights);
// Rows on their way to the experts and back, without those that are compressed.
inline constexpr Role arrived = Encoded | Dispatched | ExpertInput, worked = ExpertPartial | ExpertOutput,
                      returned = worked | Combined, rows = arrived | returned | gradient_of(arrived | returned),
                      compressed = Compressed | gradient_of(Compressed);
inline constexpr Role expert_input = arrived | ShadowInput, expert_output = ExpertPartial | ShadowOutput,
                      d_expert_output = gradient_of(returned | ShadowOutput), kept = arrived | Hidden,
                      to_decode = returned | ShadowOutput;
inline constexpr Role sent_scores = EncodedScores | DispatchedScores, row_scores = sent_scores | GatheredScores;
inline constexpr Role row_counts = RowCounts | ArrivingCounts | GatheredCounts;
inline constexpr Role expert_weights = ExpertWeights | GatheredWeights,
                      expert_gradient = ExpertGradient | GatheredWeightGradient | gradient_of(GatheredWeightGradient);
inline constexpr Role weights =
    DenseWeights | RouterWeights | ExpertWeights | EmbeddingWeights | HeadWeights | NormWeights;
inline constexpr Role all_gradients =
    DenseGradients | ReplicatedGradients | RouterGradient | ExpertGradient;  // of weights
inline constexpr Role head_weights = HeadWeights | EmbeddingWeights;
inline constexpr Role squares = GradientSquares | SquaresOfAll;
}  // namespace roles

// One: exactly one. Optional: none or one. Some: one or more, one after another. Any: also none.
enum class Count : std::uint8_t { One, Optional, Some, Any };

// The half of a backward op that an operand belongs to. The half of the inputs writes what lies between, and that of
// the weights reads it; the whole op keeps it to itself, or writes it too.
enum class Share : std::uint8_t { Both, Inputs, Weights, Between, BetweenAndWhole };

struct Operand {
  Role role = TensorKind::LayerInput;
  Count count = Count::One;
  std::string_view note = {};
  Share share = Share::Both;

  constexpr Operand() = default;
  constexpr Operand(Role is, std::string_view says = {}) : role(is), note(says) {}
  constexpr Operand(TensorKind kind, std::string_view says = {}) : role(kind), note(says) {}
  constexpr Operand(Count many, Role is, std::string_view says = {}) : role(is), count(many), note(says) {}
};

constexpr Operand with_share(Operand operand, Share share) {
  operand.share = share;
  return operand;
}
constexpr Operand of_inputs(Operand operand) {
  return with_share(operand, Share::Inputs);
}
constexpr Operand of_weights(Operand operand) {
  return with_share(operand, Share::Weights);
}
constexpr Operand between(Operand operand) {
  return with_share(operand, Share::Between);
}

template <class Item, std::size_t most>
class UpTo {
 public:
  constexpr UpTo() = default;
  constexpr UpTo(std::initializer_list<Item> items) : size_(items.size()) {
    if (size_ > most) throw InternalError("more items than a list holds");
    std::copy(items.begin(), items.end(), all_.begin());
  }
  constexpr const Item* begin() const { return all_.data(); }
  constexpr const Item* end() const { return all_.data() + size_; }

 private:
  std::array<Item, most> all_;
  std::size_t size_ = 0;
};
using Operands = UpTo<Operand, 11>;  // in their order

// The operands of an op in one pass.
struct Signature {
  Phase phase = Phase::Forward;
  Operands reads = {}, writes = {};
  std::string_view remark = {};

  constexpr bool has_halves() const {
    return std::ranges::any_of(writes, [](const Operand& o) { return o.share == Share::Weights; });
  }
};
// The operands that an op or a half of it reads and writes, in their order.
std::vector<const Operand*> read_by(Half half, const Signature& signature);
std::vector<const Operand*> written_by(Half half, const Signature& signature);
using Signatures = UpTo<Signature, 14>;

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
#include "models/time/memory_kinds.hpp"

#include <utility>

#include "models/base/errors.hpp"

namespace dovetail {
namespace {

// In the order of the kinds of tensors.
constexpr auto kinds = std::to_array<std::pair<TensorKind, MemoryKind>>({
    {TensorKind::LayerInput, MemoryKind::Stream},
    {TensorKind::AttentionInput, MemoryKind::Exchanged},
    {TensorKind::QueryKeyValue, MemoryKind::Attention},
    {TensorKind::AttentionContext, MemoryKind::Attention},
    {TensorKind::LogSumExp, MemoryKind::Attention},
    {TensorKind::AttentionScores, MemoryKind::Attention},
    {TensorKind::AttentionProbabilities, MemoryKind::Attention},
    {TensorKind::AttentionPartial, MemoryKind::Attention},
    {TensorKind::AttentionOutput, MemoryKind::Attention},
    {TensorKind::MoeInput, MemoryKind::Stream},
    {TensorKind::Routing, MemoryKind::Routing},
    {TensorKind::Encoded, MemoryKind::Exchanged},
    {TensorKind::EncodedScores, MemoryKind::Routing},
    {TensorKind::Dispatched, MemoryKind::Exchanged},
    {TensorKind::DispatchedScores, MemoryKind::Routing},
    {TensorKind::GatheredScores, MemoryKind::Routing},
    {TensorKind::ExpertInput, MemoryKind::Exchanged},
    {TensorKind::Hidden, MemoryKind::Experts},
    {TensorKind::Activated, MemoryKind::Experts},
    {TensorKind::ExpertPartial, MemoryKind::Experts},
    {TensorKind::ExpertOutput, MemoryKind::Exchanged},
    {TensorKind::Combined, MemoryKind::Exchanged},
    {TensorKind::RoutingMask, MemoryKind::Routing},
    {TensorKind::CombineWeights, MemoryKind::Routing},
    {TensorKind::GateScratch, MemoryKind::Routing},
    {TensorKind::Compressed, MemoryKind::Exchanged},
    {TensorKind::Staging, MemoryKind::Exchanged},
    {TensorKind::ShadowInput, MemoryKind::Experts},
    {TensorKind::ShadowOutput, MemoryKind::Experts},
    {TensorKind::FfnInput, MemoryKind::Exchanged},
    {TensorKind::FfnHidden, MemoryKind::DenseFfn},
    {TensorKind::FfnActivated, MemoryKind::DenseFfn},
    {TensorKind::FfnPartial, MemoryKind::DenseFfn},
    {TensorKind::FfnOutput, MemoryKind::DenseFfn},
    {TensorKind::FfnSumGradient, MemoryKind::DenseFfn},
    {TensorKind::ScoreGradient, MemoryKind::Routing},
    {TensorKind::OutputGradient, MemoryKind::Stream},
    {TensorKind::AttentionSumGradient, MemoryKind::Attention},
    {TensorKind::DenseWeights, MemoryKind::Weights},
    {TensorKind::DenseGradients, MemoryKind::Gradients},
    {TensorKind::RouterWeights, MemoryKind::Weights},
    {TensorKind::RouterGradient, MemoryKind::Gradients},
    {TensorKind::ExpertWeights, MemoryKind::Weights},
    {TensorKind::ExpertGradient, MemoryKind::Gradients},
    {TensorKind::GatheredWeights, MemoryKind::Exchanged},
    {TensorKind::GatheredWeightGradient, MemoryKind::Exchanged},
    {TensorKind::OptimizerState, MemoryKind::Optimizer},
    {TensorKind::Tokens, MemoryKind::Stream},
    {TensorKind::EmbeddingPartial, MemoryKind::Exchanged},
    {TensorKind::NormedInput, MemoryKind::Stream},
    {TensorKind::NormedMoeInput, MemoryKind::Stream},
    {TensorKind::HeadInput, MemoryKind::Exchanged},
    {TensorKind::Logits, MemoryKind::Logits},
    {TensorKind::LossStatistics, MemoryKind::Logits},
    {TensorKind::GatheredStatistics, MemoryKind::Logits},
    {TensorKind::Loss, MemoryKind::Logits},
    {TensorKind::EmbeddingWeights, MemoryKind::Weights},
    {TensorKind::HeadWeights, MemoryKind::Weights},
    {TensorKind::NormWeights, MemoryKind::Weights},
    {TensorKind::ReplicatedGradients, MemoryKind::Gradients},
    {TensorKind::GradientSquares, MemoryKind::Gradients},
    {TensorKind::SquaresOfAll, MemoryKind::Gradients},
    {TensorKind::QueryKeyInput, MemoryKind::Attention},
    {TensorKind::RowCounts, MemoryKind::Routing},
    {TensorKind::ArrivingCounts, MemoryKind::Routing},
    {TensorKind::GatheredCounts, MemoryKind::Routing},
    {TensorKind::MtpInput, MemoryKind::Stream},
    {TensorKind::GatheredMtpInput, MemoryKind::Exchanged},
    {TensorKind::MtpColumns, MemoryKind::Exchanged},
    {TensorKind::SharedGradient, MemoryKind::Exchanged},
    {TensorKind::RowTokens, MemoryKind::Routing},
    {TensorKind::LowRanks, MemoryKind::Attention},
    {TensorKind::GatheredLowRanks, MemoryKind::Exchanged},
    {TensorKind::QueryKeySums, MemoryKind::Attention},
    {TensorKind::FrameworkBuffers, MemoryKind::Framework},
});

constexpr bool in_order() {
  for (std::size_t i = 0; i < kinds.size(); ++i)
    if (kinds[i].first != static_cast<TensorKind>(i)) return false;
  return kinds.size() == tensor_table.size();
}
static_assert(in_order(), "every kind of tensor needs its line here");

}  // namespace

MemoryKind memory_kind_of(const Tensor& tensor) {
  return kinds[static_cast<std::size_t>(tensor.kind)].second;
}

}  // namespace dovetail

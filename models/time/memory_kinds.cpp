#include "models/time/memory_kinds.hpp"

#include "models/base/errors.hpp"

namespace dovetail {

MemoryKind memory_kind_of(const Tensor& tensor) {
  switch (tensor.kind) {
    case TensorKind::DenseWeights:
    case TensorKind::RouterWeights:
    case TensorKind::ExpertWeights:
    case TensorKind::EmbeddingWeights:
    case TensorKind::HeadWeights:
    case TensorKind::NormWeights:
      return MemoryKind::Weights;
    case TensorKind::DenseGradients:
    case TensorKind::RouterGradient:
    case TensorKind::ExpertGradient:
    case TensorKind::ReplicatedGradients:
      return MemoryKind::Gradients;
    case TensorKind::OptimizerState:
      return MemoryKind::Optimizer;
    case TensorKind::LayerInput:
    case TensorKind::MoeInput:
    case TensorKind::NormedInput:
    case TensorKind::NormedMoeInput:
    case TensorKind::OutputGradient:
    case TensorKind::Tokens:
      return MemoryKind::Stream;
    case TensorKind::QueryKeyValue:
    case TensorKind::AttentionContext:
    case TensorKind::LogSumExp:
    case TensorKind::AttentionScores:
    case TensorKind::AttentionProbabilities:
    case TensorKind::AttentionPartial:
    case TensorKind::AttentionOutput:
    case TensorKind::AttentionSumGradient:
      return MemoryKind::Attention;
    case TensorKind::FfnHidden:
    case TensorKind::FfnPartial:
    case TensorKind::FfnOutput:
    case TensorKind::FfnSumGradient:
      return MemoryKind::DenseFfn;
    case TensorKind::Hidden:
    case TensorKind::ExpertPartial:
    case TensorKind::ShadowInput:
    case TensorKind::ShadowOutput:
      return MemoryKind::Experts;
    case TensorKind::Routing:
    case TensorKind::RoutingMask:
    case TensorKind::CombineWeights:
    case TensorKind::ScoreGradient:
      return MemoryKind::Routing;
    case TensorKind::Encoded:
    case TensorKind::Dispatched:
    case TensorKind::ExpertInput:
    case TensorKind::ExpertOutput:
    case TensorKind::Combined:
    case TensorKind::Compressed:
    case TensorKind::Staging:
    case TensorKind::AttentionInput:
    case TensorKind::FfnInput:
    case TensorKind::HeadInput:
    case TensorKind::EmbeddingPartial:
    case TensorKind::GatheredWeights:
    case TensorKind::GatheredWeightGradient:
      return MemoryKind::Exchanged;
    case TensorKind::Logits:
    case TensorKind::LossStatistics:
    case TensorKind::GatheredStatistics:
    case TensorKind::Loss:
      return MemoryKind::Logits;
  }
  throw InternalError("tensor kind");
}

}  // namespace dovetail

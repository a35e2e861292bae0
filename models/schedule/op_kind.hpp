// SPDX-License-Identifier: Apache-2.0
// The kinds of ops of a schedule, and the passes they belong to.
#pragma once
#include <cstddef>
#include <cstdint>

#include "models/base/names.hpp"

namespace dovetail {

enum class Phase : std::uint8_t { Forward, Backward, Update };
inline constexpr Names<Phase, 3> phase_names{
    {{"forward", Phase::Forward}, {"backward", Phase::Backward}, {"update", Phase::Update}}};

// A backward op may be two: one for the gradients of what it read, which the backward pass goes on from, and one for
// those of its weights.
enum class Half : std::uint8_t { Both, Inputs, Weights };
inline constexpr Names<Half, 3> half_names{
    {{"both", Half::Both}, {"inputs", Half::Inputs}, {"weights", Half::Weights}}};

// A backward op has the name of the forward op it is the gradient of; its collective is the
// dual one (the backward of EspAllGather is a reduce-scatter). Names and operands: see op_table.hpp.
enum class OpKind : std::uint8_t {
  MpAllGather,
  Projection,
  QueryKeyNorm,
  Attention,
  MpReduceScatter,
  MpAllReduce,
  Gate,
  Encode,
  Dispatch,
  DispatchScores,
  EspAllGather,
  GatherScores,
  Expert,
  EspReduceScatter,
  EspAllReduce,
  Combine,
  Decode,
  DenseFfn,
  Residual,
  GatherExpertWeights,
  ShadowWeights,
  Offload,
  Prefetch,
  RestoreDispatch,
  RestoreGather,
  RestoreHidden,
  StageSend,
  StageReceive,
  Compress,
  Decompress,
  HostSync,
  DenseGradientAllReduce,
  ExpertGradientAllReduce,
  ReplicatedGradientAllReduce,
  ParameterAllGather,
  Embedding,
  MtpProjection,
  Norm,
  OutputHead,
  LossStatistics,
  GatherStatistics,
  Loss,
  GradientNorm,
  GradientNormAllReduce,
  Update,
  ExchangeCounts
};
inline constexpr std::size_t op_kinds = static_cast<std::size_t>(OpKind::ExchangeCounts) + 1;
extern const Names<OpKind, op_kinds> op_kind_names;

}  // namespace dovetail

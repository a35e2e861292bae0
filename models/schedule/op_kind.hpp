// The kinds of ops of a schedule, and the passes they belong to.
#pragma once
#include <cstdint>

#include "models/base/names.hpp"

namespace dovetail {

enum class Phase : std::uint8_t { Forward, Backward, Update };
inline constexpr Names<Phase, 3> phase_names{
    {{"forward", Phase::Forward}, {"backward", Phase::Backward}, {"update", Phase::Update}}};

// A backward op has the name of the forward op it is the gradient of; its collective is the
// dual one (the backward of EspAllGather is a reduce-scatter). Operands: see operands.md beside this file.
enum class OpKind : std::uint8_t {
  MpAllGather,
  Projection,
  Attention,
  MpReduceScatter,
  Gate,
  Encode,
  Dispatch,
  EspAllGather,
  Expert,
  EspReduceScatter,
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
  Update
};
inline constexpr Names<OpKind, 29> op_kind_names{{{"mp_all_gather", OpKind::MpAllGather},
                                                  {"projection", OpKind::Projection},
                                                  {"attention", OpKind::Attention},
                                                  {"mp_reduce_scatter", OpKind::MpReduceScatter},
                                                  {"gate", OpKind::Gate},
                                                  {"encode", OpKind::Encode},
                                                  {"dispatch", OpKind::Dispatch},
                                                  {"esp_all_gather", OpKind::EspAllGather},
                                                  {"expert", OpKind::Expert},
                                                  {"esp_reduce_scatter", OpKind::EspReduceScatter},
                                                  {"combine", OpKind::Combine},
                                                  {"decode", OpKind::Decode},
                                                  {"dense_ffn", OpKind::DenseFfn},
                                                  {"residual", OpKind::Residual},
                                                  {"gather_expert_weights", OpKind::GatherExpertWeights},
                                                  {"shadow_weights", OpKind::ShadowWeights},
                                                  {"offload", OpKind::Offload},
                                                  {"prefetch", OpKind::Prefetch},
                                                  {"restore_dispatch", OpKind::RestoreDispatch},
                                                  {"restore_gather", OpKind::RestoreGather},
                                                  {"restore_hidden", OpKind::RestoreHidden},
                                                  {"stage_send", OpKind::StageSend},
                                                  {"stage_receive", OpKind::StageReceive},
                                                  {"compress", OpKind::Compress},
                                                  {"decompress", OpKind::Decompress},
                                                  {"host_sync", OpKind::HostSync},
                                                  {"dense_gradient_all_reduce", OpKind::DenseGradientAllReduce},
                                                  {"expert_gradient_all_reduce", OpKind::ExpertGradientAllReduce},
                                                  {"update", OpKind::Update}}};

}  // namespace dovetail

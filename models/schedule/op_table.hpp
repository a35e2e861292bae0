// One entry for each kind of op, with all that it is beside its name, which pictures, planners and executors ask.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "models/schedule/op_kind.hpp"

namespace dovetail {

// The part of a training step that a kind of op belongs to. Host: it only waits.
enum class OpPart : std::uint8_t { Attention, Routing, Experts, DenseFfn, Stages, Host, StepEnd };

struct OpEntry {
  OpKind kind;
  char letter;              // in pictures of text; backward ops have the small one
  std::string_view colour;  // on pages, "#rrggbb"
  OpPart part;
  bool stands_alone = false;    // in the backward pass: not the gradient of a forward op of the same name
  bool exchanges_rows = false;  // between the ranks that have tokens and those that have their experts
  bool on_arrived = false;      // works on, or moves on, rows that have arrived at their experts' ranks
  bool floats = false;          // may run beside other layers: moves weights, or rows that are kept
  bool restores = false;        // makes again, in the backward pass, a tensor of the forward pass
};

// In the order of a legend.
inline constexpr auto op_table = std::to_array<OpEntry>(
    {{.kind = OpKind::MpAllGather, .letter = 'M', .colour = "#72b7b2", .part = OpPart::Attention},
     {.kind = OpKind::Attention, .letter = 'A', .colour = "#4c78a8", .part = OpPart::Attention},
     {.kind = OpKind::MpReduceScatter, .letter = 'P', .colour = "#4f8f8a", .part = OpPart::Attention},
     {.kind = OpKind::Gate, .letter = 'T', .colour = "#bab0d6", .part = OpPart::Routing},
     {.kind = OpKind::Encode, .letter = 'N', .colour = "#9c8fc4", .part = OpPart::Routing},
     {.kind = OpKind::Dispatch, .letter = 'D', .colour = "#f58518", .part = OpPart::Experts, .exchanges_rows = true},
     {.kind = OpKind::EspAllGather, .letter = 'G', .colour = "#eeca3b", .part = OpPart::Experts, .on_arrived = true},
     {.kind = OpKind::Expert, .letter = 'E', .colour = "#54a24b", .part = OpPart::Experts, .on_arrived = true},
     {.kind = OpKind::EspReduceScatter,
      .letter = 'S',
      .colour = "#b79a20",
      .part = OpPart::Experts,
      .on_arrived = true},
     {.kind = OpKind::Combine, .letter = 'C', .colour = "#e45756", .part = OpPart::Experts, .exchanges_rows = true},
     {.kind = OpKind::Decode, .letter = 'O', .colour = "#7d6fb0", .part = OpPart::Routing},
     {.kind = OpKind::DenseGradientAllReduce,
      .letter = 'R',
      .colour = "#b2568f",
      .part = OpPart::StepEnd,
      .stands_alone = true},
     {.kind = OpKind::ExpertGradientAllReduce,
      .letter = 'X',
      .colour = "#d68ab8",
      .part = OpPart::StepEnd,
      .stands_alone = true},
     {.kind = OpKind::Update, .letter = 'U', .colour = "#9d755d", .part = OpPart::StepEnd},
     {.kind = OpKind::DenseFfn, .letter = 'F', .colour = "#7cb97a", .part = OpPart::DenseFfn},
     {.kind = OpKind::GatherExpertWeights, .letter = 'W', .colour = "#c9a227", .part = OpPart::Experts, .floats = true},
     {.kind = OpKind::ShadowWeights, .letter = 'H', .colour = "#a0522d", .part = OpPart::Experts, .floats = true},
     {.kind = OpKind::Offload, .letter = 'L', .colour = "#8c8c8c", .part = OpPart::Experts, .stands_alone = true},
     {.kind = OpKind::Prefetch, .letter = 'I', .colour = "#5f6a72", .part = OpPart::Experts, .stands_alone = true},
     {.kind = OpKind::RestoreDispatch,
      .letter = 'Q',
      .colour = "#f9b27c",
      .part = OpPart::Experts,
      .stands_alone = true,
      .on_arrived = true,
      .floats = true,
      .restores = true},
     {.kind = OpKind::RestoreGather,
      .letter = 'J',
      .colour = "#f2dc8d",
      .part = OpPart::Experts,
      .stands_alone = true,
      .on_arrived = true,
      .floats = true,
      .restores = true},
     {.kind = OpKind::RestoreHidden,
      .letter = 'K',
      .colour = "#a3d39c",
      .part = OpPart::Experts,
      .stands_alone = true,
      .on_arrived = true,
      .restores = true},
     {.kind = OpKind::StageSend, .letter = 'Y', .colour = "#2f6f9f", .part = OpPart::Stages, .stands_alone = true},
     {.kind = OpKind::StageReceive, .letter = 'Z', .colour = "#86b6d9", .part = OpPart::Stages, .stands_alone = true},
     {.kind = OpKind::Compress, .letter = 'V', .colour = "#c7c1dc", .part = OpPart::Routing},
     {.kind = OpKind::Decompress, .letter = 'B', .colour = "#ddd8ec", .part = OpPart::Routing},
     {.kind = OpKind::Residual, .letter = '+', .colour = "#cfd8dc", .part = OpPart::DenseFfn},
     {.kind = OpKind::Projection, .letter = '=', .colour = "#7fa3cc", .part = OpPart::Attention},
     {.kind = OpKind::HostSync, .letter = '|', .colour = "#222222", .part = OpPart::Host, .stands_alone = true}});

namespace op_table_detail {
// The place of each kind's entry. A kind without an entry, or with two, does not compile.
inline constexpr auto places = [] {
  std::array<std::size_t, op_kind_names.size()> at{};
  at.fill(op_table.size());
  for (std::size_t i = 0; i < op_table.size(); ++i) {
    std::size_t& place = at.at(static_cast<std::size_t>(op_table[i].kind));
    if (place != op_table.size()) throw InternalError("an op kind with two entries");
    place = i;
  }
  for (std::size_t place : at)
    if (place == op_table.size()) throw InternalError("an op kind without an entry");
  return at;
}();
}  // namespace op_table_detail

constexpr const OpEntry& entry_of(OpKind kind) {
  return op_table[op_table_detail::places[static_cast<std::size_t>(kind)]];
}

}  // namespace dovetail

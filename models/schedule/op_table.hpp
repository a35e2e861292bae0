// SPDX-License-Identifier: Apache-2.0
// One entry for each kind of op: what it reads and writes, and all that pictures, planners and executors ask about it.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "models/schedule/operands.hpp"

namespace dovetail {

// The part of a training step that a kind of op belongs to. Host: it only waits.
enum class OpPart : std::uint8_t { Attention, Routing, Experts, DenseFfn, Ends, Stages, Host, StepEnd };

// Kernels that an eager framework launches for an op, one by one, beside the products, attention and exchanges of its
// work. Assumed: the usual kernels of training frameworks, each element-wise chain fused into one.
struct SmallKernels {
  int forward = 0, backward = 0;  // backward: also of the update
  std::string_view what = {};
  int of(Phase phase) const { return phase == Phase::Forward ? forward : backward; }
};

struct OpEntry {
  OpKind kind;
  std::string_view name;
  char letter;              // in pictures of text; backward ops have the small one
  std::string_view colour;  // on pages, "#rrggbb"
  OpPart part;
  bool communicates = false;    // between ranks
  bool stands_alone = false;    // in the backward pass: not the gradient of a forward op of the same name
  bool exchanges_rows = false;  // between the ranks that have tokens and those that have their experts
  bool to_experts = false;      // takes rows from their tokens' ranks to their experts'
  bool on_arrived = false;      // works on, or moves on, rows that have arrived at their experts' ranks
  bool floats = false;          // may run beside other layers: moves weights, or rows that are kept
  bool restores = false;        // makes again, in the backward pass, a tensor of the forward pass
  SmallKernels small = {};
  Signatures signatures = {};  // of the passes that it has
};

extern const std::array<OpEntry, op_kinds> op_table;  // in the order of a legend

const OpEntry& entry_of(OpKind kind);

}  // namespace dovetail

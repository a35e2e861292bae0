// SPDX-License-Identifier: Apache-2.0
// The order of a rank as text, in the notation that PyTorch's pipeline schedules are written in: a unit is its stage, a
// letter and its micro-batch, as in 0F3 (F: forward, B: backward, I and W: the gradients of inputs and of weights), and
// (1F4;2B0) are two units beside each other. Blanks or commas lie between the slots.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "models/plan/program.hpp"

namespace dovetail {

// A slot's text that cannot be read. `offset`: of its first character in the line.
struct SlotError {
  std::size_t offset;
  std::string message;
};

// (0F1;0B0)OVERLAP_F_B, as PyTorch has it, means (0F1;0B0). Throws SlotError.
std::vector<Slot> read_slots(std::string_view line);
std::string to_text(const std::vector<Slot>& slots);

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
// A step of a pipeline as data: what each rank does in which order, and which rank holds which stage.
//
// A stage here is a run of layers; a rank may hold several ("virtual") stages. Each micro-batch passes the stages
// forward in ascending order and backward in descending order.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/plan/program_names.hpp"

namespace dovetail {

// A backward pass is one unit, or two: the gradients of a stage's inputs, which the stage before waits for, and those
// of its weights, which nobody waits for (Qi et al. 2023).
enum class UnitKind { Forward, Backward, InputGradient, WeightGradient };
inline constexpr int unit_kinds = 4;
inline constexpr std::string_view unit_letters = "FBIW";

struct Unit {
  UnitKind kind = UnitKind::Forward;
  int stage = 0, micro_batch = 0;
  friend bool operator==(const Unit&, const Unit&) = default;
};
std::string to_text(const Unit& unit);  // "0F3": stage, F, B, I or W, micro-batch

// One unit, or two that run beside each other.
struct Slot {
  Unit unit;
  std::optional<Unit> beside = {};
  friend bool operator==(const Slot&, const Slot&) = default;
};

struct Program {
  int micro_batches = 0;
  std::vector<int> rank_of;              // by stage
  std::vector<std::vector<Slot>> ranks;  // by rank, in its order
};

// A program of the table, over `ranks` ranks with `laps` stages each:
// gpipe (Huang et al. 2019): all forwards, then the backwards in reverse.
// 1f1b (PipeDream-Flush, Narayanan et al. 2021): rank r runs ranks - 1 - r forwards ahead, then one forward and one
//   backward in turn, so that it holds at most ranks - r micro-batches.
// interleaved (Narayanan et al. 2021, as in Megatron-LM): `laps` stages a rank. Each group of `ranks` micro-batches
//   passes all laps before the next one does. Rank r runs 2 (ranks - 1 - r) + (laps - 1) ranks units ahead.
// zb_h1, zb_h2 (Qi et al. 2023, section 2): as 1f1b, or with twice as many forwards ahead, and backward passes in
//   halves. Rank r begins with the weights' half once it is r (zb_h2: 2 r) micro-batches behind, so that each rank
//   holds at most `ranks` (zb_h2: 2 ranks - 1) micro-batches.
// zb_v (Qi et al. 2023, appendix; Qi et al. 2024): two stages a rank, the second ones in reverse order.
// dualpipe_v (DeepSeek-AI 2025, DualPipe's V): the same stages; forwards of one run beside backwards of the other.
// Throws InputError for laps other than its own (1; zb_v, dualpipe_v: 2; interleaved: from 1 on), and for fewer
// micro-batches than it needs (dualpipe_v: 2 ranks; interleaved with several laps: a multiple of the ranks).
Program make_program(PipelineSchedule schedule, int ranks, int micro_batches, int laps = 1, Turns turns = Turns::Apart);

bool has_backward(const Program& program);

// Without backward passes.
Program forward_only(Program program);

// With each backward pass as two units, one right after the other.
Program in_halves(Program program);

// Throws InputError unless each stage has each micro-batch's forward pass once and its backward pass once, whole or in
// halves, or no backward pass at all, and unless no rank waits for ever.
void validate(const Program& program);

// All slots, each after the units that it waits for: ranks take one in turn. Throws InputError where none can go on.
std::vector<Slot> in_order(const Program& program);
// Their units, those beside each other one after the other.
std::vector<Unit> units_of(const std::vector<Slot>& slots);

// By rank: the most passes of micro-batches through its stages that are under way at once, from the beginning of the
// forward pass to the end of the backward pass, both halves of it.
std::vector<int> most_live(const Program& program);

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
// A step of a pipeline as data: what each rank does in which order, and which rank holds which stage.
//
// A stage here is a run of layers; a rank may hold several ("virtual") stages. Each micro-batch passes the stages
// forward in ascending order and backward in descending order. With two pipelines the first half of the micro-batches
// passes the first half of the stages, and the other one the other.
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
  int pipelines = 1;

  int stages() const { return static_cast<int>(rank_of.size()); }
  // No other stage comes before it, or after it.
  bool is_first(int stage) const { return stage % (stages() / pipelines) == 0; }
  bool is_last(int stage) const { return is_first(stage + 1); }
  // Whether the unit is of a stage and micro-batch of one pipeline.
  bool contains(const Unit& unit) const;
};

// A program of the table, over `ranks` ranks with `laps` stages each; program_table.cpp says what each one is.
// Throws InputError for laps other than those of its shape (One: 1; V, TwoWays: 2; Laps: from 1 on), and for
// micro-batches that it cannot have: fewer than its least, with several laps no multiple of the ranks, and with two
// pipelines an odd number; these need an even number of ranks too.
Program make_program(PipelineSchedule schedule, int ranks, int micro_batches, int laps = 1, Turns turns = Turns::Apart);

bool has_backward(const Program& program);

// Without backward passes.
Program forward_only(Program program);

// With each backward pass as two units, one right after the other.
Program in_halves(Program program);

// Throws InputError unless each stage has the forward pass of each micro-batch of its pipeline once and its backward
// pass once, whole or in halves, or no backward pass at all, and unless no rank waits for ever.
void validate(const Program& program);

// All slots, each after the units that it waits for: ranks take one in turn. Throws InputError where none can go on.
std::vector<Slot> in_order(const Program& program);
// Their units, those beside each other one after the other.
std::vector<Unit> units_of(const std::vector<Slot>& slots);

// By rank: the most passes of micro-batches through its stages that are under way at once, from the beginning of the
// forward pass to the end of the backward pass, both halves of it.
std::vector<int> most_live(const Program& program);

}  // namespace dovetail

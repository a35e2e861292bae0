// SPDX-License-Identifier: Apache-2.0
// The programs of pipelines that have names. program_table.cpp has the order of each rank.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "models/base/names.hpp"
#include "models/question/stage_layout.hpp"

namespace dovetail {

// The place of a program in the table below.
enum class PipelineSchedule : std::uint8_t {};

// Paired: forward units run beside backward ones where the program has both in turn. Rank r of p then runs
// 2 (p - 1 - r) + (laps - 1) p + 1 forward units ahead: interleaved one more than without pairs, as Megatron-LM's
// overlap of two micro-batches has it, and 1f1b as if it were interleaved with one lap. Programs without pairs stay as
// they are.
enum class Turns : std::uint8_t { Apart, Paired };

struct NamedProgram {
  std::string_view name;
  StageShape shape;
  bool halves;            // backward passes are in halves
  bool pairs;             // forward and backward passes may run beside each other
  bool last_first;        // backward passes come in the reverse order of micro-batches
  int least_per_rank;     // micro-batches
  std::string_view help;  // one sentence

  // Whether it can have so many micro-batches, where each rank has several stages or one.
  constexpr bool may_have(int micro_batches, int ranks) const {
    if (shape == StageShape::Laps && micro_batches % ranks != 0) return false;
    if (pipelines_of(shape) == 2 && (micro_batches % 2 != 0 || ranks % 2 != 0)) return false;
    return micro_batches >= least_per_rank * ranks;
  }
};

inline constexpr auto named_programs = std::to_array<NamedProgram>(
    {{"gpipe", StageShape::One, false, false, true, 0, "All run forward; then they run backward in reverse."},
     {"1f1b", StageShape::One, false, true, false, 0, "One forward and one backward pass take turns."},
     {"interleaved", StageShape::Laps, false, true, false, 1,
      "One forward and one backward pass take turns, on ranks that have several stages each (Megatron-LM's interleaved "
      "1F1B)."},
     {"zb_h1", StageShape::One, true, false, false, 0,
      "As 1f1b, but the gradients of weights wait until the pipeline drains, and fill it (Qi et al. 2023)."},
     {"zb_h2", StageShape::One, true, false, false, 0,
      "As zb_h1, with twice as many forward passes ahead, which takes about twice the memory (Qi et al. 2023)."},
     {"interleaved_zb", StageShape::Laps, true, false, false, 1,
      "As interleaved, with as few passes ahead as zb_h1 allows, and gradients of weights that wait (PyTorch's "
      "interleaved zero bubble)."},
     {"zb_v", StageShape::V, true, false, false, 0,
      "Each rank has two stages, on the way down and on the way back up, and gradients of weights fill the pipeline "
      "(Qi et al. 2024)."},
     {"dualpipe_v", StageShape::V, true, true, false, 2,
      "Stages lie as in zb_v, and a forward pass of one is followed by a backward pass of the other, or runs beside it "
      "with scope batch (DualPipe's V, DeepSeek-AI 2025)."},
     {"dualpipe", StageShape::TwoWays, true, true, false, 2,
      "Two pipelines run against each other, each with all layers and half of the micro-batches, so that each layer is "
      "on two ranks; passes follow each other as in dualpipe_v (DeepSeek-AI 2025)."},
     {"listed", StageShape::One, false, false, false, 0, "The plan lists the order of each rank itself."}});

constexpr const NamedProgram& entry_of(PipelineSchedule schedule) {
  return named_programs.at(static_cast<std::size_t>(schedule));
}
// A name that is not in the table does not compile.
consteval PipelineSchedule pipeline_schedule(std::string_view name) {
  const auto* const entry = std::ranges::find(named_programs, name, &NamedProgram::name);
  if (entry == named_programs.end()) throw InternalError("no program has this name");
  return static_cast<PipelineSchedule>(entry - named_programs.begin());
}

inline constexpr auto pipeline_schedule_names = [] {
  Names<PipelineSchedule, named_programs.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = {named_programs[i].name, static_cast<PipelineSchedule>(i)};
  return names;
}();

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
#include "models/plan/listed_program.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "models/base/errors.hpp"
#include "models/plan/program.hpp"
#include "models/plan/program_text.hpp"

namespace dovetail {
namespace {

// No stage has micro-batches of both halves of them.
bool is_two_pipelines(Program program, int stages) {
  if (stages % 2 != 0 || program.micro_batches % 2 != 0) return false;
  program.rank_of.resize(static_cast<std::size_t>(stages));
  program.pipelines = 2;
  return std::ranges::all_of(program.ranks, [&](const std::vector<Slot>& slots) {
    return std::ranges::all_of(units_of(slots), [&](const Unit& unit) { return program.contains(unit); });
  });
}

// By stage: the rank whose line has its units. Every stage must have some, and no more stages or micro-batches can be
// than there are units.
Program gathered(std::vector<std::vector<Slot>> ranks) {
  Program program{0, {}, std::move(ranks)};
  std::size_t units = 0;
  int stages = 0;
  const auto for_each = [&](auto work) {
    for (std::size_t rank = 0; rank < program.ranks.size(); ++rank)
      for (const Unit& unit : units_of(program.ranks[rank])) work(static_cast<int>(rank), unit);
  };
  for_each([&](int, const Unit& unit) {
    ++units;
    stages = std::max(stages, unit.stage + 1);
    program.micro_batches = std::max(program.micro_batches, unit.micro_batch + 1);
  });
  if (units == 0) throw InputError("no units, expected a line for each rank, such as \"0F0 0B0\"");
  const auto too_many = [&](int pipelines) {
    return static_cast<double>(stages) * program.micro_batches > pipelines * static_cast<double>(units);
  };
  if (!too_many(2) && is_two_pipelines(program, stages)) program.pipelines = 2;
  if (too_many(program.pipelines))
    throw InputError(
        fmt::format("{} units for {} stages and {} micro-batches, expected a forward and a backward pass "
                    "of each micro-batch through each stage",
                    units, stages, program.micro_batches));
  program.rank_of.resize(static_cast<std::size_t>(stages));
  for_each([&](int rank, const Unit& unit) { program.rank_of[static_cast<std::size_t>(unit.stage)] = rank; });
  return program;
}

StageShape shape_of(const Program& program, int ranks, int laps) {
  if (program.pipelines == 2 && laps == 2 && ranks > 1 &&
      program.rank_of == stages_of(StageShape::TwoWays, ranks, laps))
    return StageShape::TwoWays;
  if (program.pipelines == 2)
    throw InputError(
        fmt::format("the ranks of the stages of two pipelines are {}, expected 0 to {} and back to 0, of "
                    "two ranks or more",
                    fmt::join(program.rank_of, " "), ranks - 1));
  if (laps == 1 && program.rank_of == stages_of(StageShape::One, ranks, laps)) return StageShape::One;
  if (laps > 1 && program.rank_of == stages_of(StageShape::Laps, ranks, laps)) return StageShape::Laps;
  if (laps == 2 && program.rank_of == stages_of(StageShape::V, ranks, laps)) return StageShape::V;
  throw InputError(
      fmt::format("the ranks of the stages are {}, expected 0 to {} in turn, or with two stages a rank "
                  "there and back",
                  fmt::join(program.rank_of, " "), ranks - 1));
}

}  // namespace

struct ListedProgram::Contents {
  Program program;
  NamedProgram entry{"listed", StageShape::One, false, false, false, 0, "The plan lists it."};
};

ListedProgram::ListedProgram() = default;

ListedProgram::ListedProgram(std::vector<std::vector<Slot>> ranks) {
  Contents contents{gathered(std::move(ranks))};
  validate(contents.program);
  const int count = static_cast<int>(contents.program.ranks.size());
  contents.entry.shape = shape_of(contents.program, count, static_cast<int>(contents.program.rank_of.size()) / count);
  for (const std::vector<Slot>& slots : contents.program.ranks)
    for (const Slot& slot : slots) {
      contents.entry.pairs |= slot.beside.has_value();
      for (const Unit& unit : units_of({slot}))
        contents.entry.halves |= unit.kind == UnitKind::InputGradient || unit.kind == UnitKind::WeightGradient;
    }
  contents_ = std::move(contents);
}

bool ListedProgram::empty() const {
  return program().ranks.empty();
}
int ListedProgram::ranks() const {
  return static_cast<int>(program().ranks.size());
}
int ListedProgram::micro_batches() const {
  return program().micro_batches;
}
int ListedProgram::laps() const {
  return empty() ? 1 : static_cast<int>(program().rank_of.size()) / ranks();
}
const Program& ListedProgram::program() const {
  return contents_->program;
}
const NamedProgram& ListedProgram::entry() const {
  return contents_->entry;
}

std::vector<std::string> ListedProgram::lines() const {
  std::vector<std::string> lines;
  for (const std::vector<Slot>& slots : program().ranks) lines.push_back(to_text(slots));
  return lines;
}

bool operator==(const ListedProgram& a, const ListedProgram& b) {
  return a.program().ranks == b.program().ranks;
}

}  // namespace dovetail

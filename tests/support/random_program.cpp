// SPDX-License-Identifier: Apache-2.0
#include "tests/support/random_program.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "models/plan/program.hpp"

namespace dovetail::test {
namespace {

Program empty_program(const Plan& plan, int ranks) {
  Program program{plan.micro_batches, stages_of(plan.pipeline().shape, ranks, plan.virtual_stages), {}};
  program.ranks.resize(static_cast<std::size_t>(ranks));
  // Stages lie down and back up where two pipelines cannot be.
  if (ranks > 1 && program.micro_batches % 2 == 0) program.pipelines = pipelines_of(plan.pipeline().shape);
  return program;
}

// Drawn unit by unit from those that need wait for no other.
class RandomProgram {
 public:
  RandomProgram(Draw& draw, const Plan& plan, int ranks)
      : draw_(draw),
        program_(empty_program(plan, ranks)),
        halves_(draw.chance(50) ? 50 : 0),
        pairs_(plan.scope == Scope::Batch || draw.chance(30)) {
    for (int stage = 0; stage < program_.stages(); ++stage)
      for (int i = 0; i < program_.micro_batches; ++i)
        if (const Unit first{UnitKind::Forward, stage, i}; program_.is_first(stage) && program_.contains(first))
          ready_.push_back(first);
  }

  ListedProgram drawn() {
    while (!ready_.empty()) {
      const Unit unit = take(draw_.below(ready_.size()));
      Slot slot{unit};
      const auto other = std::ranges::find_if(ready_, [&](const Unit& o) { return may_be_beside(unit, o); });
      if (pairs_ && other != ready_.end() && draw_.chance(70))
        slot.beside = take(static_cast<std::size_t>(other - ready_.begin()));
      program_.ranks[rank_of(unit)].push_back(slot);
      release(unit);
      if (slot.beside) release(*slot.beside);
    }
    return ListedProgram(std::move(program_.ranks));
  }

 private:
  std::size_t rank_of(const Unit& unit) const {
    return static_cast<std::size_t>(program_.rank_of[static_cast<std::size_t>(unit.stage)]);
  }
  bool may_be_beside(const Unit& unit, const Unit& other) const {
    const auto passes_back = [](const Unit& u) {
      return u.kind == UnitKind::Backward || u.kind == UnitKind::InputGradient;
    };
    return rank_of(unit) == rank_of(other) && ((unit.kind == UnitKind::Forward && passes_back(other)) ||
                                               (other.kind == UnitKind::Forward && passes_back(unit)));
  }
  Unit take(std::size_t at) {
    const Unit unit = ready_[at];
    ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(at));
    return unit;
  }
  void release(const Unit& unit) {
    const UnitKind back = draw_.chance(halves_) ? UnitKind::InputGradient : UnitKind::Backward;
    switch (unit.kind) {
      case UnitKind::Forward:
        return ready_.push_back(program_.is_last(unit.stage)
                                    ? Unit{back, unit.stage, unit.micro_batch}
                                    : Unit{UnitKind::Forward, unit.stage + 1, unit.micro_batch});
      case UnitKind::InputGradient:
        ready_.push_back({UnitKind::WeightGradient, unit.stage, unit.micro_batch});
        [[fallthrough]];
      case UnitKind::Backward:
        if (!program_.is_first(unit.stage)) ready_.push_back({back, unit.stage - 1, unit.micro_batch});
        return;
      case UnitKind::WeightGradient:
        return;
    }
  }

  Draw& draw_;
  Program program_;  // without units until they are drawn
  int halves_;       // percent of the backward passes
  bool pairs_;
  std::vector<Unit> ready_;
};

}  // namespace

ListedProgram random_program(Random& random, const Plan& plan, int ranks) {
  Draw draw(random);
  return RandomProgram(draw, plan, ranks).drawn();
}

}  // namespace dovetail::test

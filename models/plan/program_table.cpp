// SPDX-License-Identifier: Apache-2.0
// The programs that have names: one function a rank's order.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "models/base/errors.hpp"
#include "models/plan/program.hpp"

namespace dovetail {
namespace {

// The question a rank's order answers.
struct Rank {
  int rank, ranks, micro_batches, laps;
  Turns turns = Turns::Apart;
  int later() const { return ranks - 1 - rank; }
};

using Slots = std::vector<Slot>;

// gpipe (Huang et al. 2019).
Slots all_then_back(const Rank& r) {
  Slots slots;
  for (int i = 0; i < r.micro_batches; ++i) slots.push_back({{UnitKind::Forward, r.rank, i}});
  for (int i = r.micro_batches - 1; i >= 0; --i) slots.push_back({{UnitKind::Backward, r.rank, i}});
  return slots;
}

// The i-th one of its kind on a rank. Each group of `ranks` micro-batches passes all laps before the next one does.
Unit unit_of(const Rank& r, UnitKind kind, int i) {
  if (r.laps == 1) return {kind, r.rank, i};
  const int group = r.ranks * r.laps;
  const int passed = i % group / r.ranks, micro_batch = i / group * r.ranks + i % r.ranks;
  const int lap = kind == UnitKind::Forward ? passed : r.laps - 1 - passed;
  return {kind, lap * r.ranks + r.rank, micro_batch};
}

// 1f1b (PipeDream-Flush, Narayanan et al. 2021): rank r runs ranks - 1 - r forwards ahead, then one forward and one
// backward in turn, so that it holds at most ranks - r micro-batches.
// interleaved (Narayanan et al. 2021, as in Megatron-LM): `laps` stages a rank. Rank r runs
// 2 (ranks - 1 - r) + (laps - 1) ranks units ahead.
Slots in_turn(const Rank& r) {
  const int units = r.micro_batches * r.laps;
  const bool paired = r.turns == Turns::Paired;
  // A pair ends as a whole, so that the next rank has its forward unit two turns later.
  const int filling = r.laps == 1 && !paired ? r.later() : 2 * r.later() + (r.laps - 1) * r.ranks;
  const int ahead = std::min(filling + (paired ? 1 : 0), units);
  Slots slots;
  for (int i = 0; i < units + ahead; ++i) {
    if (i < units) slots.push_back({unit_of(r, UnitKind::Forward, i)});
    if (i < ahead) continue;
    const Unit backward = unit_of(r, UnitKind::Backward, i - ahead);
    if (paired && i < units)
      slots.back().beside = backward;
    else
      slots.push_back({backward});
  }
  return slots;
}

// As 1f1b, with `times` as many forwards ahead and backward passes in halves. Rank r begins with the weights' half once
// it is times r units behind. interleaved_zb (PyTorch's ScheduleInterleavedZeroBubble) has several laps and times 1.
Slots zero_bubble(const Rank& r, int times) {
  const int units = r.micro_batches * r.laps, behind = times * r.rank;
  const int ahead = std::min(times * r.later() + (r.laps - 1) * r.ranks, units);
  Slots slots;
  int weights = 0;
  const auto add_weights = [&] { slots.push_back({unit_of(r, UnitKind::WeightGradient, weights++)}); };
  for (int i = 0; i < units + ahead; ++i) {
    if (i < units) slots.push_back({unit_of(r, UnitKind::Forward, i)});
    if (i < ahead) continue;
    slots.push_back({unit_of(r, UnitKind::InputGradient, i - ahead)});
    if (i - ahead >= behind) add_weights();
  }
  while (weights < units) add_weights();
  return slots;
}

// Qi et al. 2023, section 2: each rank holds at most `ranks` micro-batches, with zb_h2 2 ranks - 1.
Slots zb_h1(const Rank& r) {
  return zero_bubble(r, 1);
}
Slots zb_h2(const Rank& r) {
  return zero_bubble(r, 2);
}

// The micro-batches that a rank takes through one of its stages.
struct Passes {
  int stage, first, last;
};

// Writes the slots of a rank that holds a stage on the way down and one on the way back up, or two of other passes.
// Each call takes the next micro-batch of its kind and stage, if there is one left. Weights' halves are taken in the
// order of their other halves.
class TwoStages {
 public:
  enum Way { Down, Up };
  TwoStages(const Passes& down, const Passes& up) : passes_{down, up} {}
  explicit TwoStages(const Rank& r)
      : TwoStages({r.rank, 0, r.micro_batches}, {2 * r.ranks - 1 - r.rank, 0, r.micro_batches}) {}

  void forward(Way way) { add(next(UnitKind::Forward, way)); }
  void backward(Way way) { add(next(UnitKind::Backward, way)); }
  void inputs(Way way) {
    const std::optional<Unit> unit = next(UnitKind::InputGradient, way);
    add(unit);
    if (unit) queue_.push_back({UnitKind::WeightGradient, unit->stage, unit->micro_batch});
  }
  void weights() {
    if (queued()) slots_.push_back({queue_[taken_++]});
  }
  void both(Way forward, Way backward) {
    slots_.push_back({*next(UnitKind::Forward, forward), next(UnitKind::Backward, backward)});
  }

  int forwards(Way way) const { return forwards_[way]; }
  bool queued() const { return taken_ < queue_.size(); }
  const Slots& slots() const { return slots_; }

 private:
  std::optional<Unit> next(UnitKind kind, Way way) {
    int& done = (kind == UnitKind::Forward ? forwards_ : backwards_)[way];
    const Passes& passes = passes_[way];
    const Unit unit{kind, passes.stage, passes.first + done++};
    return unit.micro_batch < passes.last ? std::optional(unit) : std::nullopt;
  }
  void add(const std::optional<Unit>& unit) {
    if (unit) slots_.push_back({*unit});
  }

  std::array<Passes, 2> passes_;
  std::array<int, 2> forwards_{}, backwards_{};
  std::vector<Unit> queue_;
  std::size_t taken_ = 0;
  Slots slots_;
};

// Qi et al. 2023, appendix; Qi et al. 2024.
Slots zb_v(const Rank& r) {
  using enum TwoStages::Way;
  TwoStages two(r);
  const auto in_halves = [&](TwoStages::Way way) {
    two.inputs(way);
    two.weights();
  };
  for (int i = 0; i < 2 * r.later() + 1; ++i) two.forward(Down);
  for (int i = 0; i < r.rank; ++i) two.forward(Up), two.forward(Down);
  for (int i = 0; i <= r.later(); ++i) two.forward(Up), in_halves(Up);
  const int all = std::max(r.micro_batches, 2 * r.ranks - 1);  // with fewer, the rest of the steady part is left out
  while (two.forwards(Up) < two.forwards(Down) || two.forwards(Down) < all) {
    if (two.forwards(Down) < all) two.forward(Down);
    in_halves(Down);
    two.forward(Up);
    in_halves(Up);
  }
  for (int i = 0; i < r.rank; ++i) two.inputs(Down), two.inputs(Up);
  for (int i = 0; i <= r.later(); ++i) in_halves(Down);
  while (two.queued()) two.weights();
  return two.slots();
}

// The eight phases of DualPipe's published scheduler (DeepSeek-AI 2025). `r`: the place in a V of two stages a rank,
// whose micro-batches take each way.
Slots eight_phases(const Rank& r, TwoStages two) {
  using enum TwoStages::Way;
  for (int i = 0; i < 2 * r.later(); ++i) two.forward(Down);
  for (int i = 0; i <= r.rank; ++i) two.forward(Down), two.forward(Up);
  for (int i = 0; i < r.later(); ++i) two.inputs(Up), two.weights(), two.forward(Up);
  for (int i = 0; i < r.micro_batches - 2 * r.ranks + r.rank + 1; ++i) {
    if (i == 0 && r.later() == 0)  // the forward pass has just come from this rank's other stage
      two.forward(Down), two.backward(Up);
    else
      two.both(Down, Up);
    two.both(Up, Down);
  }
  for (int i = 0; i < r.later(); ++i) two.backward(Up), two.both(Up, Down);
  for (int i = 0; i < 2 * (r.rank + 1); ++i) {
    const TwoStages::Way way = i % 2 == 0 ? Up : Down;
    i <= r.rank ? two.backward(way) : two.inputs(way);
  }
  for (int i = 0; i < r.later(); ++i) two.weights(), two.inputs(Down);
  while (two.queued()) two.weights();
  return two.slots();
}

Slots dualpipe_v(const Rank& r) {
  return eight_phases(r, TwoStages(r));
}

// Two pipelines against each other. The ranks of a half lie as those of a V do, and their stages of the other pipeline
// are where a V comes back up.
Slots dualpipe(const Rank& r) {
  const int half = r.micro_batches / 2, place = std::min(r.rank, r.later());
  const Passes first{r.rank, 0, half}, second{r.ranks + r.later(), half, r.micro_batches};
  const bool begins_first = r.rank < r.ranks / 2;
  return eight_phases({place, r.ranks / 2, half, r.laps, r.turns},
                      begins_first ? TwoStages(first, second) : TwoStages(second, first));
}

Slots listed(const Rank&) {
  throw InternalError("a program that is listed is in the plan");
}

struct RankOrder {
  std::string_view name;
  Slots (*order)(const Rank&);
};
// In the order of named_programs.
constexpr std::array<RankOrder, named_programs.size()> rank_orders{{{"gpipe", all_then_back},
                                                                    {"1f1b", in_turn},
                                                                    {"interleaved", in_turn},
                                                                    {"zb_h1", zb_h1},
                                                                    {"zb_h2", zb_h2},
                                                                    {"interleaved_zb", zb_h1},
                                                                    {"zb_v", zb_v},
                                                                    {"dualpipe_v", dualpipe_v},
                                                                    {"dualpipe", dualpipe},
                                                                    {"listed", listed}}};
static_assert(std::ranges::equal(named_programs, rank_orders, {}, &NamedProgram::name, &RankOrder::name));

void require(const NamedProgram& program, const Rank& r) {
  if (r.ranks < 1 || r.micro_batches < 1) throw InputError("a pipeline needs ranks and micro-batches");
  const bool laps = program.shape == StageShape::Laps;
  const bool fits = laps ? r.laps >= 1 : r.laps == (program.shape == StageShape::One ? 1 : 2);
  if (!fits) throw InputError(fmt::format("{}: {} stages a rank, expected another number", program.name, r.laps));
  if (laps && r.laps > 1 && r.micro_batches % r.ranks != 0)
    throw InputError(
        fmt::format("{}: {} micro-batches, expected a multiple of {} ranks", program.name, r.micro_batches, r.ranks));
  if (pipelines_of(program.shape) == 2 && (r.ranks % 2 != 0 || r.micro_batches % 2 != 0))
    throw InputError(fmt::format("{}: {} ranks and {} micro-batches, expected even numbers", program.name, r.ranks,
                                 r.micro_batches));
  if (const int least = program.least_per_rank * r.ranks; !laps && r.micro_batches < least)
    throw InputError(fmt::format("{}: {} micro-batches, expected at least {}", program.name, r.micro_batches, least));
}

}  // namespace

Program make_program(PipelineSchedule schedule, int ranks, int micro_batches, int laps, Turns turns) {
  const NamedProgram& named = entry_of(schedule);
  require(named, {0, ranks, micro_batches, laps});
  Program program{micro_batches, stages_of(named.shape, ranks, laps), {}, pipelines_of(named.shape)};
  const auto order = rank_orders[static_cast<std::size_t>(schedule)].order;
  for (int rank = 0; rank < ranks; ++rank) program.ranks.push_back(order({rank, ranks, micro_batches, laps, turns}));
  return program;
}

}  // namespace dovetail

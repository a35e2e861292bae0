// SPDX-License-Identifier: Apache-2.0
// The programs that have names: one function a rank's order.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>

#include "models/base/errors.hpp"
#include "models/plan/program.hpp"

namespace dovetail {
namespace {

// The question a rank's order answers.
struct Rank {
  int rank, ranks, micro_batches, laps;
  int later() const { return ranks - 1 - rank; }
};

using Slots = std::vector<Slot>;

Slots all_then_back(const Rank& r) {
  Slots slots;
  for (int i = 0; i < r.micro_batches; ++i) slots.push_back({{UnitKind::Forward, r.rank, i}});
  for (int i = r.micro_batches - 1; i >= 0; --i) slots.push_back({{UnitKind::Backward, r.rank, i}});
  return slots;
}

// With one lap the groups are of no importance.
Slots in_turn(const Rank& r) {
  const int units = r.micro_batches * r.laps, group = r.ranks * r.laps;
  const auto unit = [&](UnitKind kind, int i) {
    if (r.laps == 1) return Slot{{kind, r.rank, i}};
    const int passed = i % group / r.ranks, micro_batch = i / group * r.ranks + i % r.ranks;
    const int lap = kind == UnitKind::Forward ? passed : r.laps - 1 - passed;
    return Slot{{kind, lap * r.ranks + r.rank, micro_batch}};
  };
  const int ahead = std::min(r.laps == 1 ? r.later() : 2 * r.later() + (r.laps - 1) * r.ranks, units);
  Slots slots;
  for (int i = 0; i < units + ahead; ++i) {
    if (i < units) slots.push_back(unit(UnitKind::Forward, i));
    if (i >= ahead) slots.push_back(unit(UnitKind::Backward, i - ahead));
  }
  return slots;
}

// `times`: as many forwards ahead as 1F1B has, and as many weights' halves behind.
Slots zero_bubble(const Rank& r, int times) {
  const int ahead = std::min(times * r.later(), r.micro_batches), behind = times * r.rank;
  Slots slots;
  int weights = 0;
  for (int i = 0; i < r.micro_batches + ahead; ++i) {
    if (i < r.micro_batches) slots.push_back({{UnitKind::Forward, r.rank, i}});
    if (i < ahead) continue;
    slots.push_back({{UnitKind::InputGradient, r.rank, i - ahead}});
    if (i - ahead >= behind) slots.push_back({{UnitKind::WeightGradient, r.rank, weights++}});
  }
  while (weights < r.micro_batches) slots.push_back({{UnitKind::WeightGradient, r.rank, weights++}});
  return slots;
}
Slots zb_h1(const Rank& r) {
  return zero_bubble(r, 1);
}
Slots zb_h2(const Rank& r) {
  return zero_bubble(r, 2);
}

// Writes the slots of a rank that holds a stage on the way down and one on the way back up. Each call takes the next
// micro-batch of its kind and stage, if there is one left. Weights' halves are taken in the order of their other
// halves.
class TwoStages {
 public:
  enum Way { Down, Up };
  explicit TwoStages(const Rank& r) : stage_{r.rank, 2 * r.ranks - 1 - r.rank}, micro_batches_(r.micro_batches) {}

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
    const Unit unit{kind, stage_[way], done++};
    return unit.micro_batch < micro_batches_ ? std::optional(unit) : std::nullopt;
  }
  void add(const std::optional<Unit>& unit) {
    if (unit) slots_.push_back({*unit});
  }

  std::array<int, 2> stage_, forwards_{}, backwards_{};
  int micro_batches_;
  std::vector<Unit> queue_;
  std::size_t taken_ = 0;
  Slots slots_;
};

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

// The eight phases of DeepSeek's published scheduler.
Slots dualpipe_v(const Rank& r) {
  using enum TwoStages::Way;
  TwoStages two(r);
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

// How a program's stages lie on the ranks: as one after the other, in laps, or down and back up.
enum class Shape { One, Laps, V };

struct Entry {
  std::string_view name;
  Shape shape;
  Slots (*order)(const Rank&);
};
constexpr std::array<Entry, 7> programs{{{"gpipe", Shape::One, all_then_back},
                                         {"1f1b", Shape::One, in_turn},
                                         {"interleaved", Shape::Laps, in_turn},
                                         {"zb_h1", Shape::One, zb_h1},
                                         {"zb_h2", Shape::One, zb_h2},
                                         {"zb_v", Shape::V, zb_v},
                                         {"dualpipe_v", Shape::V, dualpipe_v}}};

void require(const Entry& entry, const Rank& r) {
  if (r.ranks < 1 || r.micro_batches < 1) throw InputError("a pipeline needs ranks and micro-batches");
  const bool fits = entry.shape == Shape::Laps ? r.laps >= 1 : r.laps == (entry.shape == Shape::V ? 2 : 1);
  if (!fits) throw InputError(fmt::format("{}: {} stages a rank, expected another number", entry.name, r.laps));
  if (entry.shape == Shape::Laps && r.laps > 1 && r.micro_batches % r.ranks != 0)
    throw InputError(
        fmt::format("{}: {} micro-batches, expected a multiple of {} ranks", entry.name, r.micro_batches, r.ranks));
  if (entry.order == dualpipe_v && r.micro_batches < 2 * r.ranks)
    throw InputError(
        fmt::format("{}: {} micro-batches, expected at least {}", entry.name, r.micro_batches, 2 * r.ranks));
}

}  // namespace

const std::vector<std::string_view>& program_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const Entry& entry : programs) all.push_back(entry.name);
    return all;
  }();
  return names;
}

Program make_program(std::string_view name, int ranks, int micro_batches, int laps) {
  const auto entry = std::ranges::find(programs, name, &Entry::name);
  if (entry == programs.end())
    throw InputError(
        fmt::format("unknown pipeline schedule \"{}\", known: {}", name, fmt::join(program_names(), ", ")));
  require(*entry, {0, ranks, micro_batches, laps});
  Program program{micro_batches, {}, {}};
  for (int stage = 0; stage < ranks * laps; ++stage)
    program.rank_of.push_back(entry->shape == Shape::V && stage >= ranks ? 2 * ranks - 1 - stage : stage % ranks);
  for (int rank = 0; rank < ranks; ++rank) program.ranks.push_back(entry->order({rank, ranks, micro_batches, laps}));
  return program;
}

}  // namespace dovetail

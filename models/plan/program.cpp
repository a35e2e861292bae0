// SPDX-License-Identifier: Apache-2.0
#include "models/plan/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "models/base/errors.hpp"

namespace dovetail {
namespace {

// The parts of passes that are done, of all micro-batches through all stages.
class DonePasses {
 public:
  explicit DonePasses(const Program& p)
      : program_(p),
        forward_(static_cast<std::size_t>(p.stages()) * static_cast<std::size_t>(p.micro_batches)),
        inputs_(forward_.size()),
        weights_(forward_.size()) {}

  // False: something of it was done before.
  bool add(const Unit& u) {
    const std::size_t at = place(u, 0);
    const auto once = [at](std::vector<bool>& done) {
      const bool first = !done[at];
      done[at] = true;
      return first;
    };
    switch (u.kind) {
      case UnitKind::Forward:
        return once(forward_);
      case UnitKind::InputGradient:
        return once(inputs_);
      case UnitKind::WeightGradient:
        return once(weights_);
      case UnitKind::Backward:
        break;
    }
    const bool inputs = once(inputs_), weights = once(weights_);
    return inputs && weights;
  }

  bool may_begin(const Unit& u) const {
    switch (u.kind) {
      case UnitKind::Forward:
        return program_.is_first(u.stage) || forward_[place(u, -1)];
      case UnitKind::WeightGradient:
        return inputs_[place(u, 0)];
      case UnitKind::Backward:
      case UnitKind::InputGradient:
        break;
    }
    return forward_[place(u, 0)] && (program_.is_last(u.stage) || inputs_[place(u, 1)]);
  }

  // Each forward pass is done, and with any backward pass all of them, both halves.
  bool whole() const {
    const auto passes = std::ssize(forward_) / program_.pipelines;
    const auto all = [passes](const std::vector<bool>& done) { return std::ranges::count(done, true) == passes; };
    const auto none = [](const std::vector<bool>& done) { return std::ranges::find(done, true) == done.end(); };
    return all(forward_) && ((all(inputs_) && all(weights_)) || (none(inputs_) && none(weights_)));
  }

 private:
  std::size_t place(const Unit& u, int further) const {
    return static_cast<std::size_t>(u.stage + further) * static_cast<std::size_t>(program_.micro_batches) +
           static_cast<std::size_t>(u.micro_batch);
  }

  const Program& program_;
  std::vector<bool> forward_, inputs_, weights_;  // the last two: of the backward pass
};

}  // namespace

std::string to_text(const Unit& unit) {
  return fmt::format("{}{}{}", unit.stage, unit_letters[static_cast<std::size_t>(unit.kind)], unit.micro_batch);
}

bool Program::contains(const Unit& unit) const {
  if (unit.stage < 0 || unit.stage >= stages() || unit.micro_batch < 0 || unit.micro_batch >= micro_batches)
    return false;
  return unit.stage / (stages() / pipelines) == unit.micro_batch / (micro_batches / pipelines);
}

bool has_backward(const Program& program) {
  const auto in_slot = [](const Slot& slot) { return slot.beside || slot.unit.kind != UnitKind::Forward; };
  return std::ranges::any_of(program.ranks, [&](const auto& slots) { return std::ranges::any_of(slots, in_slot); });
}

Program forward_only(Program program) {
  for (std::vector<Slot>& slots : program.ranks) {
    std::vector<Slot> kept;
    for (const Slot& slot : slots) {
      if (slot.unit.kind == UnitKind::Forward) kept.push_back({slot.unit});
      if (slot.beside && slot.beside->kind == UnitKind::Forward) kept.push_back({*slot.beside});
    }
    slots = std::move(kept);
  }
  return program;
}

Program in_halves(Program program) {
  for (std::vector<Slot>& slots : program.ranks) {
    std::vector<Slot> halved;
    const auto add = [&](const Unit& unit) {
      if (unit.kind != UnitKind::Backward) return halved.push_back({unit});
      halved.push_back({{UnitKind::InputGradient, unit.stage, unit.micro_batch}});
      halved.push_back({{UnitKind::WeightGradient, unit.stage, unit.micro_batch}});
    };
    for (const Slot& slot : slots) {
      add(slot.unit);
      if (slot.beside) add(*slot.beside);
    }
    slots = std::move(halved);
  }
  return program;
}

void validate(const Program& program) {
  DonePasses done(program);
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank)
    for (const Slot& slot : program.ranks[rank])
      for (const Unit* unit : {&slot.unit, slot.beside ? &*slot.beside : nullptr}) {
        if (unit == nullptr) continue;
        if (!program.contains(*unit) ||
            program.rank_of[static_cast<std::size_t>(unit->stage)] != static_cast<int>(rank))
          throw InputError(fmt::format("rank {}: {} is of no stage or micro-batch of this rank", rank, to_text(*unit)));
        if (!done.add(*unit)) throw InputError(fmt::format("rank {}: {} was done before", rank, to_text(*unit)));
      }
  if (!done.whole()) throw InputError("a micro-batch lacks a pass through a stage, expected each forward and backward");
  in_order(program);
}

std::vector<Slot> in_order(const Program& program) {
  std::size_t all = 0;
  for (const std::vector<Slot>& slots : program.ranks) all += slots.size();
  std::vector<Slot> order;
  DonePasses done(program);
  std::vector<std::size_t> next(program.ranks.size());
  for (std::size_t taken = 0, before = 0; taken < all; before = taken) {
    for (std::size_t rank = 0; rank < next.size(); ++rank) {
      if (next[rank] == program.ranks[rank].size()) continue;
      const Slot& slot = program.ranks[rank][next[rank]];
      if (!done.may_begin(slot.unit) || (slot.beside && !done.may_begin(*slot.beside))) continue;
      ++next[rank], ++taken;
      order.push_back(slot);
      done.add(slot.unit);
      if (slot.beside) done.add(*slot.beside);
    }
    if (taken > before) continue;
    const auto stuck = static_cast<std::size_t>(
        std::ranges::find_if(program.ranks,
                             [&](const auto& slots) {
                               return next[static_cast<std::size_t>(&slots - program.ranks.data())] < slots.size();
                             }) -
        program.ranks.begin());
    throw InputError(
        fmt::format("rank {} waits for ever to begin {}", stuck, to_text(program.ranks[stuck][next[stuck]].unit)));
  }
  return order;
}

std::vector<Unit> units_of(const std::vector<Slot>& slots) {
  std::vector<Unit> units;
  for (const Slot& slot : slots) {
    units.push_back(slot.unit);
    if (slot.beside) units.push_back(*slot.beside);
  }
  return units;
}

std::vector<int> most_live(const Program& program) {
  std::vector<int> most(program.ranks.size());
  for (std::size_t rank = 0; rank < most.size(); ++rank) {
    int live = 0;
    for (const Slot& slot : program.ranks[rank]) {
      const auto of = [](const Unit& u) {
        return u.kind == UnitKind::Forward ? 1 : u.kind == UnitKind::InputGradient ? 0 : -1;
      };
      const int first = of(slot.unit), second = slot.beside ? of(*slot.beside) : 0;
      most[rank] = std::max(most[rank], live + std::max(first, 0) + std::max(second, 0));
      live += first + second;
    }
  }
  return most;
}

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
#include "exec/device/deferred/shadow.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace dovetail::exec::deferred {
namespace {

std::string described(const Accessor& a, bool writes) {
  const std::string whose =
      !a.purpose.op.exists() ? "" : fmt::format(" of op {} on rank {}", std::int32_t{a.purpose.op}, a.purpose.rank);
  return fmt::format("{}{} ({} of lane {}) {}", a.what, whose, a.number, a.lane, writes ? "writes" : "reads");
}

}  // namespace

std::string to_string(const Race& race) {
  return fmt::format("{} what {}, in no order: {} bytes at {:#x}", described(race.one, race.one_writes),
                     described(race.other, race.other_writes), race.bytes.last - race.bytes.first, race.bytes.first);
}

Shadow::States::iterator Shadow::cut(std::uintptr_t at) {
  auto after = states_.lower_bound(at);
  if (after == states_.begin()) return after;
  const auto before = std::prev(after);
  if (before->second.last <= at) return after;
  State rest = before->second;
  before->second.last = at;
  return states_.emplace_hint(after, at, std::move(rest));
}

template <class Visit>
void Shadow::visit(Range range, Visit visit) {
  auto state = cut(range.first);
  cut(range.last);
  for (std::uintptr_t at = range.first; at < range.last;) {
    if (state == states_.end() || state->first > at) {
      State fresh;
      fresh.last = state == states_.end() ? range.last : std::min(range.last, state->first);
      state = states_.emplace_hint(state, at, std::move(fresh));
    }
    visit(at, state->second);
    at = state->second.last;
    ++state;
  }
}

bool Shadow::is_over(Id id, const Clock& known) const {
  const Accessor& a = accessors_[static_cast<std::size_t>(id)];
  return known.of(a.lane) >= a.number;
}

void Shadow::check_order(Id earlier, bool writes, Id accessor, bool accessor_writes, const Clock& known, Range bytes) {
  if (earlier < 0 || earlier == accessor || is_over(earlier, known)) return;
  if (!reported_.emplace(std::pair(earlier, accessor), true).second) return;
  report_({accessors_[static_cast<std::size_t>(earlier)], accessors_[static_cast<std::size_t>(accessor)], writes,
           accessor_writes, bytes});
}

void Shadow::touch(Accessor accessor, const Clock& known, const std::vector<Range>& reads,
                   const std::vector<Range>& writes) {
  const auto id = static_cast<Id>(accessors_.size());
  accessors_.push_back(std::move(accessor));
  for (const Range& range : reads)
    visit(range, [&](std::uintptr_t first, State& state) {
      check_order(state.writer, true, id, false, known, {first, state.last});
      std::erase_if(state.readers, [&](Id reader) { return is_over(reader, known); });
      state.readers.push_back(id);
    });
  for (const Range& range : writes)
    visit(range, [&](std::uintptr_t first, State& state) {
      check_order(state.writer, true, id, true, known, {first, state.last});
      for (Id reader : state.readers) check_order(reader, false, id, true, known, {first, state.last});
      state.readers.clear();
      state.writer = id;
    });
}

void Shadow::forget(Range range) {
  const auto last = cut(range.last);
  states_.erase(cut(range.first), last);
}

void Shadow::forget() {
  states_.clear();
  accessors_.clear();
  reported_.clear();
}

}  // namespace dovetail::exec::deferred

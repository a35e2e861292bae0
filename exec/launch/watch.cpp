// SPDX-License-Identifier: Apache-2.0
#include "exec/launch/watch.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace dovetail::exec {

Watch::Watch(const Schedule& schedule, int ranks, double patience, double start)
    : schedule_(schedule),
      patience_(patience),
      start_(start),
      first_sign_(start),
      progress_(start),
      ranks_(static_cast<std::size_t>(ranks)) {}

void Watch::heard(const Beat& beat, double now) {
  if (beat.rank < 0 || static_cast<std::size_t>(beat.rank) >= ranks_.size()) return;
  if (beat.op != Progress::none && static_cast<std::size_t>(beat.op) >= schedule_.ops.size()) return;
  Rank& rank = ranks_[static_cast<std::size_t>(beat.rank)];
  if (!rank.heard) first_sign_ = now;
  if (!rank.heard || beat.finished != rank.last.finished || beat.op != rank.last.op) progress_ = now;
  rank.last = beat;
  rank.heard = now;
}

std::optional<std::string> Watch::silence(double now) const {
  const auto heard = [](const Rank& r) { return r.heard.has_value(); };
  const double to_start = 4 * patience_;
  if (std::ranges::none_of(ranks_, heard)) {
    if (now - start_ <= to_start) return {};
    return fmt::format("no process has said anything in the {:.0f} s since they were launched", to_start);
  }
  for (std::size_t i = 0; i < ranks_.size(); ++i)
    if (const Rank& r = ranks_[i]; now - r.heard.value_or(first_sign_) > patience_)
      return fmt::format("rank {} has said nothing for {:.0f} s, {}: its process or its machine has stopped", i,
                         patience_, place_of(static_cast<int>(i)));
  return {};
}

std::optional<std::string> Watch::complaint(double now) const {
  if (auto silent = silence(now)) return silent;
  double patience = patience_;
  for (const Rank& r : ranks_) patience = std::max(patience, 2 * r.last.longest);
  if (now - progress_ <= patience) return {};
  OpId earliest = Progress::none;
  for (const Rank& r : ranks_)
    if (r.last.op != Progress::none && (earliest == Progress::none || r.last.op < earliest)) earliest = r.last.op;
  if (earliest == Progress::none) return {};  // between steps or before any: the reference may take long
  std::vector<std::size_t> there;
  for (std::size_t i = 0; i < ranks_.size(); ++i)
    if (ranks_[i].last.op == earliest) there.push_back(i);
  return fmt::format("no op has finished for {:.0f} s: rank{} {} {} not get past {}", patience,
                     there.size() == 1 ? "" : "s", fmt::join(there, ", "), there.size() == 1 ? "does" : "do",
                     name_of(earliest));
}

std::string Watch::place_of(int rank) const {
  const Rank& r = ranks_.at(static_cast<std::size_t>(rank));
  if (!r.heard) return "before its first step";
  return r.last.op == Progress::none ? "last between two ops" : "last in " + name_of(r.last.op);
}

std::string Watch::name_of(OpId op) const {
  return to_string(schedule_.ops[op]);
}

}  // namespace dovetail::exec

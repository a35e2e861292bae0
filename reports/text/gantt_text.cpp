// SPDX-License-Identifier: Apache-2.0
#include "reports/text/gantt_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "models/base/names.hpp"
#include "models/schedule/op_table.hpp"
#include "reports/text/format.hpp"

namespace dovetail::reports {
namespace {

char letter_of(const Op& op) {
  const char letter = entry_of(op.kind).letter;
  return op.phase == Phase::Backward && letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

// The op that ran longest in each column; none: idle longer than any op.
std::vector<OpId> columns_of(const Schedule& schedule, const Timeline& timeline, StreamId stream, Interval window,
                             int columns) {
  const auto size = static_cast<std::size_t>(columns);
  const double width = (window.finish - window.start).value() / columns;
  std::vector<OpId> winner(size);
  std::vector<double> most(size, 0), busy(size, 0);
  for (const OpId id : schedule.ops.ids()) {
    if (schedule.ops[id].stream != stream) continue;
    const double start = (timeline.ops[id].start - window.start).value() / width;
    const double finish = (timeline.ops[id].finish - window.start).value() / width;
    if (finish <= 0 || start >= columns) continue;
    const auto first = static_cast<std::size_t>(std::max(start, 0.0));
    for (std::size_t c = first; c < size && static_cast<double>(c) < finish; ++c) {
      const auto left = static_cast<double>(c);
      const double share = std::min(finish, left + 1) - std::max(start, left);
      busy[c] += share;
      if (share <= most[c] + 1e-9) continue;  // ties, up to rounding: the earlier op
      most[c] = share;
      winner[c] = id;
    }
  }
  for (std::size_t c = 0; c < size; ++c)
    if (1 - busy[c] > most[c] + 1e-9) winner[c] = {};
  return winner;
}

std::string blocks(const Schedule& schedule, const std::vector<OpId>& winner) {
  std::string line(winner.size(), '.');
  for (std::size_t c = 0; c < winner.size(); ++c) {
    if (winner[c] < 0) continue;
    const Op& op = schedule.ops[winner[c]];
    const bool starts = c == 0 || winner[c - 1] != winner[c];
    const bool second = !starts && (c == 1 || winner[c - 2] != winner[c]);
    const bool numbered = second && op.chunk >= 0 && op.chunk < 10;
    line[c] = starts ? letter_of(op) : numbered ? static_cast<char>('0' + op.chunk) : '-';
  }
  return line;
}

std::string legend(const std::set<OpKind>& used, bool recomputes) {
  std::string text;
  for (const OpEntry& entry : op_table)
    if (used.contains(entry.kind))
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", entry.letter, name_in(op_kind_names, entry.kind));
  const std::string_view passes = recomputes
                                      ? "; small letters: backward pass, with large ones for what it computes again"
                                      : "; small letters: backward pass";
  return wrapped(fmt::format("{}{}; then the chunk; . idle", text, passes), 118, 2);
}

}  // namespace

std::string gantt_text(const Schedule& schedule, const Timeline& timeline, const GanttOptions& options) {
  Interval window;
  for (const Interval& op : timeline.ops) window.finish = std::max(window.finish, op.finish);
  window = options.window.value_or(window);
  const Seconds length = window.finish - window.start;
  std::string text = fmt::format("{:15}{} to {}, one character is {}\n", "", duration(window.start),
                                 duration(window.finish), duration(length / options.columns));
  if (length <= Seconds(0)) return text;
  std::set<OpKind> used;
  for (const StreamId s : schedule.streams.ids()) {
    const auto winner = columns_of(schedule, timeline, s, window, options.columns);
    for (OpId id : winner)
      if (id >= 0) used.insert(schedule.ops[id].kind);
    std::string name(name_in(stream_kind_names, schedule.streams[s].kind));
    if (schedule.classes.size() > 1) name = fmt::format("{} {}", schedule.streams[s].rank_class, name);
    text += fmt::format("{:>14} {}\n", name, blocks(schedule, winner));
  }
  return text + legend(used, std::ranges::any_of(schedule.ops, &Op::recomputed)) + '\n';
}

}  // namespace dovetail::reports

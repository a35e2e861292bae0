// SPDX-License-Identifier: Apache-2.0
// The chain of ops that ends last. Each of them began when the one before it on the chain had ended.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "models/base/names.hpp"
#include "reports/sections/cells.hpp"
#include "reports/sections/section.hpp"

namespace dovetail::reports {
namespace {

struct PathShare {
  OpKind kind;
  Phase phase;
  int ops = 0;
  Seconds time;
};

// By op: the op before it on its stream.
IdVector<OpId, OpId> stream_predecessors(const Schedule& schedule) {
  IdVector<OpId, OpId> before(schedule.ops.size());
  IdVector<StreamId, OpId> last(schedule.streams.size());
  for (const OpId i : schedule.ops.ids()) before[i] = std::exchange(last[schedule.ops[i].stream], i);
  return before;
}

// The op that `op` waited for: of its dependencies and the op before it on its stream, the last that had ended when it
// began. An exchange also waits for those of its twins. None: the op waited for nothing.
OpId awaited(const Schedule& schedule, const Timeline& timeline, const IdVector<OpId, OpId>& before, OpId op) {
  const OpId first = schedule.first_twin(op);
  OpId latest;
  const auto look_at = [&](OpId other) {
    const bool earlier = other.exists() && other < first && timeline.ops[other].finish <= timeline.ops[op].start;
    if (earlier && (!latest.exists() || timeline.ops[other].finish > timeline.ops[latest].finish)) latest = other;
  };
  const auto look_before = [&](OpId waiting) {
    for (const OpId other : schedule.dependencies_of(schedule.ops[waiting])) look_at(other);
    look_at(before[waiting]);
  };
  look_before(op);
  if (schedule.ops[op].exchange() != nullptr)
    for (int c = 0; c < schedule.twins(); ++c) look_before(schedule.twin(first, c));
  return latest;
}

// By kind and pass, the longest first.
std::vector<PathShare> path_shares(const SystemResult& result) {
  std::vector<PathShare> shares;
  if (result.schedule == nullptr || result.schedule->ops.empty()) return shares;
  const Schedule& schedule = *result.schedule;
  const IdVector<OpId, OpId> before = stream_predecessors(schedule);
  OpId op{0};
  for (const OpId i : schedule.ops.ids())
    if (result.timeline.ops[i].finish > result.timeline.ops[op].finish) op = i;
  for (; op.exists(); op = awaited(schedule, result.timeline, before, op)) {
    const OpKind kind = schedule.ops[op].kind;
    const Phase phase = schedule.ops[op].pass();
    auto share = std::ranges::find_if(shares, [&](const PathShare& s) { return s.kind == kind && s.phase == phase; });
    if (share == shares.end()) share = shares.insert(shares.end(), PathShare{kind, phase, 0, {}});
    share->ops += 1;
    share->time += result.timeline.ops[op].finish - result.timeline.ops[op].start;
  }
  std::ranges::stable_sort(shares, std::ranges::greater(), &PathShare::time);
  return shares;
}

std::string operation(const PathShare& share) {
  std::string op(name_in(op_kind_names, share.kind));
  std::ranges::replace(op, '_', ' ');
  return share.phase == Phase::Update ? op : fmt::format("{} {}", op, name_in(phase_names, share.phase));
}

// The three longest of each result, whose name stands in the first row.
SectionContent critical_path_content(const Report& report, Detail detail) {
  SectionContent content;
  if (!in_depth(report, detail)) return content;
  content.headings = {"system", "operation", "ops", "% of\nthe step"};
  for (const SystemResult& result : report.results) {
    std::string name = name_of(result);
    if (result.timeline.kind != report.results.front().timeline.kind)
      name += fmt::format(" ({})", name_in(result_kind_names, result.timeline.kind));
    std::vector<PathShare> shares = path_shares(result);
    if (shares.size() > 3) shares.erase(shares.begin() + 3, shares.end());
    for (const PathShare& share : shares)
      content.rows.push_back({{std::exchange(name, ""), operation(share), std::to_string(share.ops),
                               fmt::format("{:.1f}", share.time / result.metrics.makespan * 100)}});
  }
  return content;
}

nlohmann::ordered_json critical_path_json(const SystemResult& result) {
  auto list = nlohmann::ordered_json::array();
  for (const PathShare& share : path_shares(result))
    list.push_back({{"op", name_in(op_kind_names, share.kind)},
                    {"phase", name_in(phase_names, share.phase)},
                    {"ops", share.ops},
                    {"time_s", share.time.value()}});
  return list;
}

}  // namespace

Section critical_path() {
  return {
      "what limits the step", Titled::Always,  "The kinds of operations that take longest on the chain that ends last.",
      critical_path_content,  "critical_path", critical_path_json};
}

}  // namespace dovetail::reports

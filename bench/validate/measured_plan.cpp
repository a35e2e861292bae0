// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/measured_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <ranges>
#include <tuple>

#include "exec/run/dilation.hpp"
#include "exec/run/measure.hpp"
#include "models/base/names.hpp"
#include "models/time/memory.hpp"
#include "models/time/timeline.hpp"

namespace dovetail::bench {
namespace {

using Json = nlohmann::ordered_json;

std::vector<OpTimes>::iterator times_of(const Op& op, std::vector<OpTimes>& all) {
  return std::ranges::find_if(all, [&](const OpTimes& t) { return t.op == op.kind && t.phase == op.phase; });
}

// The same ops as they were in `run`.
std::vector<OpTimes> measured_times(const PricedSchedule& priced, const exec::RunResult& run) {
  std::vector<OpTimes> all = predicted_times(priced, run.timeline);
  for (const OpId i : std::views::reverse(priced.schedule->ops.ids())) {
    const Op& op = priced.schedule->ops[i];
    const auto of = times_of(op, all);
    of->emulated = run.timeline.emulated[i];  // as the first of them was
    of->measured += (run.timeline.ops[i].finish - run.timeline.ops[i].start) / run.report.dilation;
  }
  return all;
}

}  // namespace

std::vector<OpTimes> predicted_times(const PricedSchedule& priced, const Timeline& predicted) {
  std::vector<OpTimes> all;
  for (const OpId i : priced.schedule->ops.ids()) {
    const Op& op = priced.schedule->ops[i];
    auto of = times_of(op, all);
    if (of == all.end()) of = all.insert(of, {op.kind, op.phase, false, {}, {}});
    of->predicted += predicted.ops[i].finish - predicted.ops[i].start;
  }
  return all;
}

Json measured_json(const PricedSchedule& priced, const exec::RunResult& run, bool checked) {
  Json ops = Json::array();
  for (const OpTimes& op : measured_times(priced, run))
    ops.push_back({{"op", name_in(op_kind_names, op.op)},
                   {"phase", name_in(phase_names, op.phase)},
                   {"emulated", op.emulated},
                   {"measured_s", op.measured.value()}});
  return {{"sample", (exec::median(run.report.samples) / run.report.dilation).value()},
          {"emulated_share", run.report.emulated_share},
          {"overruns", run.report.overruns},
          {"bound", (plan_bound(*run.predicted) / run.report.dilation).value()},
          {"peak_bytes", memory_use(*priced.schedule, run.timeline, Arenas::LeftOut).peak.value()},
          {"allocated_bytes", run.report.allocated_bytes},
          {"numerics_ok", checked ? Json(run.report.numerics_ok) : Json(nullptr)},
          {"ops", ops}};
}

void add_measured(const JsonReader& json, PlanOutcome& p) {
  constexpr double shortest = 1e-300, rounding = 1e-6;
  constexpr std::int64_t most_overruns = 1'000'000'000'000;
  p.samples.emplace_back(json.number("sample", shortest));
  p.emulated_share += json.number("emulated_share", 0, 1 + rounding);
  p.bound += Seconds(json.number("bound", 0));
  p.memory.measured_peak = std::max(p.memory.measured_peak, Bytes(json.number("peak_bytes", 0)));
  p.memory.allocated = std::max(p.memory.allocated, Bytes(json.number("allocated_bytes", 0)));
  p.overruns += json.long_integer("overruns", 0, most_overruns);
  if (!json.at("numerics_ok").value().is_null()) p.numerics_ok = json.boolean("numerics_ok");
  const std::vector<JsonReader> ops = json.at("ops").elements();
  if (ops.size() != p.ops.size())
    json.fail("ops", fmt::format("{} kinds of ops, expected the {} of this plan", ops.size(), p.ops.size()));
  for (std::size_t i = 0; i < ops.size(); ++i) {
    OpTimes& op = p.ops[i];
    if (ops[i].enumeration("op", op_kind_names) != op.op || ops[i].enumeration("phase", phase_names) != op.phase)
      ops[i].fail(fmt::format("expected {}, {}", name_in(op_kind_names, op.op), name_in(phase_names, op.phase)));
    if (p.samples.size() == 1) op.emulated = ops[i].boolean("emulated");
    op.measured += Seconds(ops[i].number("measured_s", 0));
  }
}

void finish_measured(PlanOutcome& p, std::uint64_t seed) {
  const auto rounds = static_cast<double>(p.samples.size());
  p.emulated_share /= rounds;
  p.bound = p.bound / rounds;
  for (OpTimes& op : p.ops) op.measured = op.measured / rounds;
  p.median = exec::median(p.samples);
  std::tie(p.ci95_low, p.ci95_high) = exec::bootstrap_median(p.samples, seed);
}

}  // namespace dovetail::bench

// SPDX-License-Identifier: Apache-2.0
// Switches between two plans from step to step, as a run has measured them.
#include "reports/sections/switches.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/results/switch_report.hpp"
#include "reports/data/json_values.hpp"
#include "reports/sections/section.hpp"
#include "reports/text/format.hpp"

namespace dovetail::reports {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 2> plan_letters{"A", "B"};
constexpr double us = 1e6, ms = 1e3;

std::string interval(const MedianTime& time, double unit, int decimals) {
  return fixed(unit * time.ci95_low.value(), decimals) + " - " + fixed(unit * time.ci95_high.value(), decimals);
}

std::string in_us(const MedianTime& time) {
  return fmt::format("{} us (95 % {} to {})", fixed(us * time.median.value(), 1), fixed(us * time.ci95_low.value(), 1),
                     fixed(us * time.ci95_high.value(), 1));
}

SectionRow row_of_turn(const SwitchReport& report, std::size_t before, std::size_t plan) {
  const TurnTimes& turn = report.turn(before, plan);
  return {{fmt::format("{}, then {}", plan_letters[before], plan_letters[plan]), fixed(us * turn.gap.median.value(), 1),
           interval(turn.gap, us, 1), fixed(ms * turn.step.median.value(), 3), interval(turn.step, ms, 3),
           std::to_string(report.repeats)}};
}

Bytes as_bytes(std::int64_t count) {
  return Bytes(static_cast<double>(count));
}

SectionLine compared_line(const SwitchReport& r) {
  if (r.checked_steps == 0) return {"steps by turns were not compared with the reference", Mark::Dim};
  return {fmt::format("{} steps with {} switches equal the sequential training: {} (errors: outputs {:.1e}, gradients "
                      "{:.1e}, weights {:.1e})",
                      r.checked_steps, r.checked_switches, r.ok ? "yes" : "NO", r.output_error, r.gradient_error,
                      r.weight_error),
          r.ok ? Mark::Good : Mark::Bad};
}

void add_lines(const SwitchReport& r, std::vector<SectionLine>& lines) {
  lines.push_back({fmt::format("A is the plan above, B the same with {}", fmt::join(r.settings, ", "))});
  lines.push_back({fmt::format("the gap is {} longer with a switch", in_us(r.cost))});
  lines.push_back({fmt::format("first step after a switch, over the next one: {} in A, {} in B", in_us(r.first_step[0]),
                               in_us(r.first_step[1]))});
  lines.push_back({fmt::format("moved at a switch: {} of the {} of weights and optimizer states of a rank",
                               bytes(as_bytes(r.moved_bytes)), bytes(as_bytes(r.kept_bytes)))});
  lines.push_back(
      {fmt::format("tensors of a rank: {} for A alone, {} for B alone, {} for both", bytes(as_bytes(r.alone_bytes[0])),
                   bytes(as_bytes(r.alone_bytes[1])), bytes(as_bytes(r.both_bytes)))});
  lines.push_back(compared_line(r));
}

SectionContent switches_content(const Report& report, Detail) {
  SectionContent content;
  for (const SystemResult& result : report.results) {
    if (!result.run || !result.run->switching) continue;
    const SwitchReport& switching = *result.run->switching;
    content.headings = {"\nfrom step to step", "gap\nus",           "95 %\ninterval us",
                        "step after it\nms",   "95 %\ninterval ms", "\nrepeats"};
    for (const auto& [before, plan] : {std::pair{0, 0}, {1, 1}, {0, 1}, {1, 0}})
      content.rows.push_back(row_of_turn(switching, static_cast<std::size_t>(before), static_cast<std::size_t>(plan)));
    add_lines(switching, content.lines);
  }
  return content;
}

Json time_json(const MedianTime& time) {
  return {{"median_s", number(time.median)}, {"ci95_s", {number(time.ci95_low), number(time.ci95_high)}}};
}

Json turns_json(const SwitchReport& report) {
  Json turns = Json::array();
  for (std::size_t before = 0; before < plan_letters.size(); ++before)
    for (std::size_t plan = 0; plan < plan_letters.size(); ++plan)
      turns.push_back({{"before", plan_letters[before]},
                       {"plan", plan_letters[plan]},
                       {"gap", time_json(report.turn(before, plan).gap)},
                       {"step", time_json(report.turn(before, plan).step)}});
  return turns;
}

}  // namespace

Json switching_json(const SwitchReport& r) {
  const bool compared = r.checked_steps > 0;
  const auto error = [&](double value) { return compared ? number(value) : Json(nullptr); };
  return {{"settings", r.settings},
          {"repeats", r.repeats},
          {"turns", turns_json(r)},
          {"cost", time_json(r.cost)},
          {"first_step", {time_json(r.first_step[0]), time_json(r.first_step[1])}},
          {"kept_bytes", r.kept_bytes},
          {"moved_bytes", r.moved_bytes},
          {"alone_bytes", r.alone_bytes},
          {"both_bytes", r.both_bytes},
          {"checked_steps", r.checked_steps},
          {"checked_switches", r.checked_switches},
          {"output_error", error(r.output_error)},
          {"gradient_error", error(r.gradient_error)},
          {"weight_error", error(r.weight_error)},
          {"tolerance", error(r.tolerance)},
          {"ok", compared ? Json(r.ok) : Json(nullptr)}};
}

Section switches() {
  return {"switching between plans", Titled::Always,
          "Steps of two plans by turns, on the same weights and optimizer states. The gap is from the end of a step's "
          "last operation to the start of the next step's first one.",
          switches_content};
}

}  // namespace dovetail::reports

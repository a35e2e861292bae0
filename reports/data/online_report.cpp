// SPDX-License-Identifier: Apache-2.0
#include "reports/data/online_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <ostream>

#include "models/base/names.hpp"
#include "models/files/experiment_json.hpp"
#include "models/files/plan_json.hpp"
#include "reports/data/json_values.hpp"
#include "reports/text/csv_cells.hpp"
#include "reports/text/format.hpp"
#include "reports/text/text_table.hpp"

namespace dovetail::reports {
namespace {

using Json = nlohmann::ordered_json;

Seconds total(const OnlineRun& run, const auto& time_of) {
  Seconds sum;
  for (const OnlineStep& step : run.steps) sum += std::invoke(time_of, step);
  return sum;
}

long chosen(const OnlineRun& run, std::size_t strategy) {
  return std::ranges::count(run.steps, strategy, &OnlineStep::chosen);
}

Json step_json(const OnlineRun& run, const OnlineStep& step) {
  return {{"capacity_factor", number(step.capacity_factor)},
          {"tokens", number(step.tokens)},
          {"strategy", run.strategies[step.chosen].name},
          {"time_s", number(step.time())},
          {"reported_s", number(step.reported)},
          {"best_s", number(best_time(step))},
          {"times_s", list_json(step.times)}};
}

void write_steps(std::ostream& out, const OnlineRun& run, bool colour) {
  TextTable table({"step", "capacity\nfactor", "tokens\nx", "strategy", "time\nms", "best\nms", "regret\nso far %"});
  const std::vector<double> sums = cumulative_regret(run);
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    const OnlineStep& step = run.steps[i];
    table.add({std::to_string(i), fixed(step.capacity_factor, 2), fixed(step.tokens, 2),
               printable(run.strategies[step.chosen].name), fixed(1e3 * step.time().value(), 2),
               fixed(1e3 * best_time(step).value(), 2), percent(sums[i])});
  }
  out << table.text(colour) << '\n';
}

}  // namespace

Seconds best_time(const OnlineStep& step) {
  return *std::ranges::min_element(step.times);
}

double regret(const OnlineRun& run, std::size_t first) {
  Seconds spent, least;
  for (std::size_t i = first; i < run.steps.size(); ++i) {
    spent += run.steps[i].time();
    least += best_time(run.steps[i]);
  }
  return spent / least - 1;
}

double regret_of(const OnlineRun& run, std::size_t strategy) {
  return total(run, [&](const OnlineStep& s) { return s.times[strategy]; }) / total(run, best_time) - 1;
}

std::vector<double> cumulative_regret(const OnlineRun& run) {
  std::vector<double> sums;
  Seconds spent, least;
  for (const OnlineStep& step : run.steps) {
    spent += step.time();
    least += best_time(step);
    sums.push_back(spent / least - 1);
  }
  return sums;
}

std::size_t last_part(const OnlineRun& run) {
  constexpr std::size_t last = 300;
  return run.steps.size() >= 2 * last ? run.steps.size() - last : run.steps.size() / 2;
}

Json to_json(const OnlineRun& run) {
  Json strategies = Json::array(), steps = Json::array();
  for (std::size_t s = 0; s < run.strategies.size(); ++s)
    strategies.push_back({{"name", run.strategies[s].name},
                          {"plan", dovetail::to_json(run.strategies[s].plan)},
                          {"chosen", chosen(run, s)},
                          {"regret", number(regret_of(run, s))}});
  for (const OnlineStep& step : run.steps) steps.push_back(step_json(run, step));
  return {
      {"schema_version", online_schema_version},
      {"kind", "online_run"},
      {"provenance", provenance_json(run.provenance)},
      {"inputs", dovetail::to_json(run.experiment)},
      {"planner", run.planner},
      {"trace", run.trace},
      {"backend", run.backend},
      {"result_kind", name_in(result_kind_names, run.kind)},
      {"noise", number(run.noise)},
      {"resumed", run.resumed},
      {"notes", run.notes},
      {"regret", number(regret(run))},
      {"regret_last", {{"steps", run.steps.size() - last_part(run)}, {"regret", number(regret(run, last_part(run)))}}},
      {"strategies", std::move(strategies)},
      {"steps", std::move(steps)}};
}

void write_csv(std::ostream& out, const OnlineRun& run) {
  out << "step,capacity_factor,tokens,strategy,time_s,reported_s,best_s,cumulative_regret\n";
  const std::vector<double> sums = cumulative_regret(run);
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    const OnlineStep& step = run.steps[i];
    out << fmt::format("{},{},{},{},{},{},{},{}\n", i, step.capacity_factor, step.tokens,
                       csv_text(run.strategies[step.chosen].name), step.time().value(), step.reported.value(),
                       best_time(step).value(), sums[i]);
  }
}

void write_table(std::ostream& out, const OnlineRun& run, bool colour, bool steps) {
  const auto [low, high] = std::ranges::minmax(run.steps, {}, &OnlineStep::capacity_factor);
  out << fmt::format("plan --online: {} over {} steps of {}, capacity factor {:.2f} to {:.2f}\n", run.planner,
                     run.steps.size(), printable(run.trace), low.capacity_factor, high.capacity_factor);
  for (const std::string& line : experiment_lines(run.experiment)) out << "  " << printable(line) << '\n';
  out << '\n';
  if (steps) write_steps(out, run, colour);
  TextTable table({"strategy", "chosen\nsteps", "all steps\ns", "regret\n%"});
  const double seconds = total(run, &OnlineStep::time).value();
  const int decimals = decimals_for({seconds});
  for (std::size_t s = 0; s < run.strategies.size(); ++s)
    table.add({"always " + printable(run.strategies[s].name), std::to_string(chosen(run, s)),
               fixed(total(run, [&](const OnlineStep& step) { return step.times[s]; }).value(), decimals),
               percent(regret_of(run, s))});
  table.add({"the best of each step", "", fixed(total(run, best_time).value(), decimals), percent(0)});
  table.add({run.planner, "", fixed(seconds, decimals), percent(regret(run))}, Ink::Good);
  out << table.text(colour) << '\n';
  out << fmt::format("  regret of the last {} steps {} %; times {} by {}{}{}\n", run.steps.size() - last_part(run),
                     percent(regret(run, last_part(run))), name_in(result_kind_names, run.kind), run.backend,
                     run.noise > 0 ? fmt::format(", reported with noise of {} %", 100 * run.noise) : "",
                     run.resumed ? ", gone on from " + printable(run.state) : "");
  if (!run.notes.empty()) out << "notes\n";
  for (const std::string& note : run.notes) out << wrapped("  - " + printable(note), 100, 4) << '\n';
}

}  // namespace dovetail::reports

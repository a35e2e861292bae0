// SPDX-License-Identifier: Apache-2.0
#include "reports/data/validation_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <ostream>
#include <utility>

#include "models/base/names.hpp"
#include "models/files/experiment_json.hpp"
#include "models/files/plan_json.hpp"
#include "reports/data/json_values.hpp"
#include "reports/data/validation_goals.hpp"
#include "reports/data/validation_statistics.hpp"
#include "reports/text/format.hpp"
#include "reports/text/summary.hpp"
#include "reports/text/text_table.hpp"

namespace dovetail::reports {
namespace {

using Json = nlohmann::ordered_json;

Json estimate_json(const Estimate& e) {
  return {{"value", number(e.value)}, {"ci95", {number(e.low), number(e.high)}}};
}

Json kernel_json(const KernelCost& k) {
  Json json{
      {"op", name_in(op_kind_names, k.op)}, {"phase", name_in(phase_names, k.phase)}, {"alpha_s", number(k.alpha)}};
  if (k.rates)
    json["rates"] = to_json(*k.rates);
  else
    json["factor"] = number(k.factor);
  json["source"] = k.provenance.source;
  return json;
}

Json copy_json(const MemoryCost& copy) {
  return {{"alpha_s", number(copy.alpha)},
          {"beta_s_per_byte", number(copy.beta.value())},
          {"source", copy.provenance.source}};
}

Json op_json(const OpTimes& op) {
  return {{"op", name_in(op_kind_names, op.op)},
          {"phase", name_in(phase_names, op.phase)},
          {"origin", op.emulated ? "emulated" : "measured"},
          {"predicted_s", number(op.predicted)},
          {"measured_s", number(op.measured)}};
}

Json memory_json(const MemoryOutcome& m) {
  return {{"predicted_peak_bytes", number(m.predicted_peak)},
          {"measured_peak_bytes", number(m.measured_peak)},
          {"allocated_bytes", m.allocated > Bytes(0) ? number(m.allocated) : Json(nullptr)}};
}

Json plan_json(const PlanOutcome& p) {
  Json ops = Json::array();
  for (const OpTimes& op : p.ops) ops.push_back(op_json(op));
  return {{"system", p.system},
          {"plan", dovetail::to_json(p.plan)},
          {"predicted_s", number(p.predicted)},
          {"predicted_unfitted_s", number(p.unfitted)},
          {"measured_s", number(p.median)},
          {"ci95_s", {number(p.ci95_low), number(p.ci95_high)}},
          {"error", number(p.error())},
          {"bound_s", number(p.bound)},
          {"memory", memory_json(p.memory)},
          {"emulated_share", number(p.emulated_share)},
          {"overruns", p.overruns},
          {"numerics_ok", p.numerics_ok ? Json(*p.numerics_ok) : Json(nullptr)},
          {"samples_s", list_json(p.samples)},
          {"ops", std::move(ops)}};
}

Json cell_json(const ValidationCell& cell) {
  Json plans = Json::array(), choices = Json::array();
  for (const PlanOutcome& plan : cell.plans) plans.push_back(plan_json(plan));
  for (const ChoiceOutcome& choice : cell.choices)
    choices.push_back({{"system", choice.system},
                       {"planner", choice.planner},
                       {"plan", choice.plan},
                       {"regret", estimate_json(regret(cell, choice))}});
  return {{"name", cell.name},
          {"bound_by", name_in(regime_names, regime_of(cell))},
          {"links_to_computation", number(links_to_computation(cell))},
          {"plans", std::move(plans)},
          {"choices", std::move(choices)}};
}

Json planner_json(const PlannerRegret& r) {
  Json regimes = Json::array();
  for (const auto& [regime, mean] : r.by_regime)
    regimes.push_back({{"bound_by", name_in(regime_names, regime)}, {"mean_regret", estimate_json(mean)}});
  return {{"system", r.system},
          {"planner", r.planner},
          {"mean_regret", estimate_json(r.mean)},
          {"by_regime", std::move(regimes)},
          {"behind_all", estimate_json(r.behind_all)},
          {"behind_all_by_medians", number(r.behind_all_by_medians)},
          {"worst_regret", number(r.worst)},
          {"worst_cell", r.worst_cell},
          {"cells", r.cells}};
}

Json online_json(const OnlineOutcome& o) {
  return {{"planner", o.planner},
          {"system", o.system},
          {"where", o.where},
          {"sizes", o.sizes},
          {"strategies", o.strategies},
          {"steps", o.steps},
          {"replays", o.replays},
          {"regret", estimate_json({o.regret, o.low, o.high})},
          {"late_regret", number(o.late_regret)}};
}

Json summary_json(const Validation& v) {
  const WorstPlan worst = worst_plan(v);
  Json planners = Json::array();
  for (const PlannerRegret& r : planner_regrets(v)) planners.push_back(planner_json(r));
  Json all_goals = Json::array(), differences = Json::array();
  for (const Goal& goal : goals(v))
    all_goals.push_back({{"what", goal.what}, {"most", goal.most}, {"value", number(goal.value)}, {"hit", goal.hit()}});
  for (const OpTimes& op : op_differences(v)) differences.push_back(op_json(op));
  const std::optional<Repeatability> again = repeatability(v);
  const std::optional<Estimate> unfitted = mean_unfitted_error(v);
  const std::optional<BestDegrees> best = best_degrees(v);
  return {
      {"goals", std::move(all_goals)},
      {"mean_error", estimate_json(mean_error(v))},
      {"mean_error_unfitted", unfitted ? estimate_json(*unfitted) : Json(nullptr)},
      {"best_degrees", best ? Json{{"largest", best->largest},
                                   {"choices", best->choices},
                                   {"smaller", best->smaller},
                                   {"inside", best->inside}}
                            : Json(nullptr)},
      {"rank_correlation", estimate_json(mean_rank_correlation(v))},
      {"repeatability",
       again ? Json{{"mean_error", number(again->mean_error)}, {"rank_correlation", number(again->rank_correlation)}}
             : Json(nullptr)},
      {"worst", {{"cell", worst.cell->name}, {"system", worst.plan->system}, {"error", number(worst.plan->error())}}},
      {"planners", std::move(planners)},
      {"op_differences", std::move(differences)}};
}

Json point_json(const DevicePoint& p) {
  Json json{{"what", name_in(device_work_names, p.what)}, {"dtype", name_in(dtype_names, p.dtype)}};
  if (p.what == DeviceWorkKind::Product) json["layout"] = name_in(product_layout_names, p.layout);
  for (const auto& [name, size] : {std::pair("batch", p.batch), std::pair("rows", p.rows), std::pair("inner", p.inner),
                                   std::pair("columns", p.columns), std::pair("heads", long{p.heads}),
                                   std::pair("kv_heads", long{p.kv_heads}), std::pair("blocks", long{p.blocks})})
    if (size > 0) json[name] = size;
  json[p.flops > 0 ? "flops" : "bytes"] = number(std::max(p.flops, p.bytes));
  json["median_s"] = number(p.median);
  json["ci95_s"] = {number(p.ci95_low), number(p.ci95_high)};
  json["samples"] = p.samples;
  if (p.predicted) json["predicted_s"] = number(*p.predicted);
  if (p.kept_speed) {
    json["beside"] = p.beside;
    json["kept_speed"] = number(*p.kept_speed);
  }
  return json;
}

Json device_json(const DeviceStudy& device) {
  Json points = Json::array(), peers = Json::array(), labels = Json::array(), step = nullptr;
  for (const DevicePoint& point : device.points) points.push_back(point_json(point));
  for (const PeerComparison& peer : device.peers)
    peers.push_back({{"name", peer.name},
                     {"efficiency", number(peer.efficiency())},
                     {"ours", point_json(peer.ours)},
                     {"peer", point_json(peer.peer)}});
  for (const auto& [name, value] : device.labels) labels.push_back({{"name", name}, {"value", value}});
  if (const auto& s = device.step)
    step = {{"peer", s->what},
            {"peer_s", number(s->peer)},
            {"peer_ci95_s", {number(s->peer_low), number(s->peer_high)}},
            {"system", s->system},
            {"ours_s", number(s->ours)},
            {"ours_compute_s", number(s->ours_compute)}};
  Json errors = Json::array();
  for (const PointError& e : point_errors(device))
    errors.push_back(
        {{"what", e.what}, {"points", e.points}, {"mean_error", number(e.mean)}, {"worst_error", number(e.worst)}});
  return {{"labels", std::move(labels)},
          {"errors", std::move(errors)},
          {"peers", std::move(peers)},
          {"step", step},
          {"points", std::move(points)}};
}

std::string degrees(const Plan& plan) {
  return fmt::format("{} / {}", plan.forward_degree, backward_degrees(plan));
}

std::string range_text(const Estimate& e) {
  return fmt::format("{} - {}", percent(e.low), percent(e.high));
}

std::size_t plan_count(const Validation& v) {
  std::size_t count = 0;
  for (const ValidationCell& cell : v.cells) count += cell.plans.size();
  return count;
}

std::string to_text(const Repeatability& again) {
  return fmt::format("measured again (every second round for the others): {} % off, rank correlation {:.3f}",
                     percent(again.mean_error), again.rank_correlation);
}

void write_summary(std::ostream& out, const Validation& v) {
  const Estimate error = mean_error(v), ranks = mean_rank_correlation(v);
  const WorstPlan worst = worst_plan(v);
  out << fmt::format("predicted against measured, {} plans of {} size{}{}\n", plan_count(v), v.cells.size(),
                     v.cells.size() == 1 ? "" : "s",
                     v.kernels_held ? ", all ops held to modelled times" : " that nothing was fitted to");
  out << fmt::format("  mean absolute error {} %  (95 %: {} to {})\n", percent(error.value), percent(error.low),
                     percent(error.high));
  if (const std::optional<Estimate> unfitted = mean_unfitted_error(v))
    out << fmt::format("  without any fit, by costs of {}: {} %  (95 %: {} to {})\n", printable(v.unfitted_by),
                       percent(unfitted->value), percent(unfitted->low), percent(unfitted->high));
  out << wrapped(fmt::format("  {}", meaning_of_error(v)), 100, 2) << '\n';
  out << fmt::format("  worst {:+.2f} %: {} {} at {}\n", 100 * worst.plan->error(), printable(worst.plan->system),
                     degrees(worst.plan->plan), printable(worst.cell->name));
  for (const Goal& goal : goals(v))
    out << fmt::format("  {} at most {} %: {} ({} %)\n", goal.what, percent(goal.most), goal.hit() ? "hit" : "MISS",
                       percent(goal.value));
  out << fmt::format("  rank correlation of plans {:.3f}  (95 %: {:.3f} to {:.3f})\n", ranks.value, ranks.low,
                     ranks.high);
  if (const std::optional<Repeatability> again = repeatability(v)) out << "  " << to_text(*again) << '\n';
  out << '\n';
}

// Long tables are left to the JSON and the page.
constexpr std::size_t most_cells = 4;

void write_choices(std::ostream& out, const Validation& v, bool colour) {
  if (v.cells.size() > most_cells) return;
  TextTable table({"system", "planner", "size", "degree\nfwd / bwd", "measured\nms", "regret\n%", "95 %\n%"});
  for (const ValidationCell& cell : v.cells)
    for (const ChoiceOutcome& choice : cell.choices) {
      const PlanOutcome& plan = cell.plans[choice.plan];
      const Estimate r = regret(cell, choice);
      table.add({printable(choice.system), choice.planner, printable(cell.name), degrees(plan.plan),
                 fixed(1e3 * plan.median.value(), 2), percent(r.value), range_text(r)});
    }
  out << "regret of each planner's choice by measured time\n" << table.text(colour);
  out << '\n';
}

void write_restores(std::ostream& out, const Validation& v, bool colour) {
  const std::vector<RestoreGroup> groups = restore_groups(v);
  if (groups.empty() || v.cells.size() > most_cells) return;
  TextTable table(
      {"system", "size", "degree", "restore", "predicted\nms", "measured\nms", "predicted\npeak", "measured\npeak"});
  for (const RestoreGroup& group : groups)
    for (const PlanOutcome* p : group.plans)
      table.add({printable(p->system), printable(group.cell->name), fmt::format("{}", p->plan.forward_degree),
                 std::string(name_in(restore_names, p->plan.restore)), fixed(1e3 * p->predicted.value(), 2),
                 fixed(1e3 * p->median.value(), 2), bytes(p->memory.predicted_peak), bytes(p->memory.measured_peak)});
  out << "ways to restore what a step does not keep\n" << table.text(colour) << '\n';
}

void write_planners(std::ostream& out, const Validation& v, bool colour) {
  TextTable table({"system", "planner", "bound by\ncomputation", "\nmixed", "\nlinks", "regret, %\nall", "\n95 %",
                   "\nworst", "behind all\nsystems, %", "\nmedians"});
  for (const PlannerRegret& r : planner_regrets(v)) {
    std::vector<std::string> row{printable(r.system), r.planner};
    for (const auto& [name, regime] : regime_names) row.push_back(regret_where(r, regime));
    row.insert(row.end(), {percent(r.mean.value), range_text(r.mean), percent(r.worst), percent(r.behind_all.value),
                           percent(r.behind_all_by_medians)});
    table.add(row);
  }
  out << "mean regret of each planner, where computation or links bound the step\n" << table.text(colour);
  out << wrapped(meaning_of_regimes(v), 100, 0) << '\n';
  if (const std::optional<BestDegrees> best = best_degrees(v))
    out << wrapped(meaning_of_degrees(*best), 100, 0) << '\n';
  if (v.cells.size() > most_cells)
    out << "each choice and all plans: in the result (--output) and on its page (--html)\n";
}

void write_online(std::ostream& out, const Validation& v, bool colour) {
  if (v.online.empty()) return;
  TextTable table({"planner", "strategies of", "at", "regret\n%", "95 %\n%", "second half\n%"});
  for (const OnlineOutcome& o : v.online)
    table.add({o.planner, fmt::format("{}, {}", printable(o.system), o.strategies), printable(o.where),
               percent(o.regret), range_text({o.regret, o.low, o.high}), percent(o.late_regret)});
  const OnlineOutcome& first = v.online.front();
  out << "planners that learn, replayed over measured times\n"
      << table.text(colour)
      << wrapped(
             fmt::format("{} replays of {} steps; each is of one of the sizes and takes what one round of the chosen "
                         "plan took; regret is against the fastest plan at each size.",
                         first.replays, first.steps),
             100, 0)
      << "\n\n";
}

}  // namespace

Json to_json(const Validation& v) {
  Json cells = Json::array(), kernels = Json::array(), online = Json::array();
  for (const OnlineOutcome& outcome : v.online) online.push_back(online_json(outcome));
  for (const ValidationCell& cell : v.cells) cells.push_back(cell_json(cell));
  for (const KernelCost& kernel : v.kernels) kernels.push_back(kernel_json(kernel));
  return {{"schema_version", validation_schema_version},
          {"kind", "validation"},
          {"provenance", provenance_json(v.provenance)},
          {"inputs", dovetail::to_json(v.experiment)},
          {"kernels_held", v.kernels_held},
          {"calibrated", v.calibrated},
          {"kernels", std::move(kernels)},
          {"copy", v.copy ? copy_json(*v.copy) : Json(nullptr)},
          {"unfitted_by", v.unfitted_by.empty() ? Json(nullptr) : Json(v.unfitted_by)},
          {"partial", v.measurements.partial()},
          {"measurements", {{"made", v.measurements.made}, {"all", v.measurements.all}}},
          {"device", device_json(v.device)},
          {"notes", v.notes},
          {"summary", summary_json(v)},
          {"online", std::move(online)},
          {"cells", std::move(cells)}};
}

void write_table(std::ostream& out, const Validation& v, bool colour) {
  write_choices(out, v, colour);
  write_restores(out, v, colour);
  write_planners(out, v, colour);
  out << '\n';
  write_online(out, v, colour);
  write_summary(out, v);
  if (!v.notes.empty()) out << "notes\n";
  for (const std::string& note : v.notes) out << wrapped("  - " + printable(note), 100, 4) << '\n';
}

}  // namespace dovetail::reports

// SPDX-License-Identifier: Apache-2.0
#include "reports/text/tuning_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <utility>

#include "models/base/names.hpp"
#include "reports/text/explanation_text.hpp"
#include "reports/text/format.hpp"
#include "reports/text/text_table.hpp"

namespace dovetail::reports {
namespace {

constexpr std::size_t width = 118;

std::string gigabytes(Bytes amount) {
  return fixed(amount.value() / gib, 1);
}

std::string recomputed(const Plan& plan) {
  return plan.recompute.empty() ? "none" : plan.recompute.has(Recompute::Full) ? "full" : "parts";
}

// The layout's cells, from pp to ZeRO.
std::vector<std::string> layout_cells(const TunedPlan& plan) {
  const Parallelism& p = plan.groups;
  std::vector<std::string> cells;
  for (const int size : {p.pp, plan.plan.virtual_stages, p.mp, p.dp, p.ep, p.esp, plan.micro_batch,
                         plan.plan.micro_batches, plan.plan.zero})
    cells.push_back(std::to_string(size));
  return cells;
}

std::vector<std::string> figure_cells(const TunedPlan& plan, const Tuning& tuning, int decimals) {
  const Throughput& t = plan.throughput;
  return {fixed(1e3 * plan.step.value(), decimals),
          fixed(t.of_gpu, 0),
          t.mfu ? fixed(100 * *t.mfu, 1) : "-",
          gigabytes(plan.peak()),
          gigabytes(tuning.experiment.cluster.device.memory - plan.peak()),
          fixed(100 * t.exposed, 1),
          fixed(100 * t.waiting, 1)};
}

const std::vector<std::string> layout_headings{"pp",  "stages\nof each", "mp",       "dp",  "ep",
                                               "esp", "micro\nbatch",    "of\nthem", "zero"};
const std::vector<std::string> figure_headings{"step\nms",  "tokens/s\na GPU", "MFU\n%", "memory\nGiB",
                                               "free\nGiB", "exposed\n%",      "idle\n%"};

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

int decimals_of(const Tuning& tuning) {
  std::vector<double> steps;
  for (const TunedPlan& plan : tuning.best) steps.push_back(1e3 * plan.step.value());
  return decimals_for(steps);
}

std::string range_text(const TunedPlan& plan) {
  if (!plan.range) return "-";
  return fmt::format("{}-{}", fixed(1e3 * plan.step.value() * plan.range->low, 0),
                     fixed(1e3 * plan.step.value() * plan.range->high, 0));
}

TuningTable best_table(const Tuning& tuning) {
  const bool ranges = tuning.best.front().range.has_value();
  std::vector<std::string> headings = joined(joined({"rank"}, layout_headings), figure_headings);
  if (ranges) headings.emplace_back("90 % range\nms");
  TuningTable table{"the best plans, one for each layout", headings, {}};
  const int decimals = decimals_of(tuning);
  for (std::size_t i = 0; i < tuning.best.size(); ++i) {
    const TunedPlan& plan = tuning.best[i];
    std::vector<std::string> cells{fmt::format("{}{}", i + 1, plan.tied && i > 0 ? " tied" : "")};
    cells = joined(joined(cells, layout_cells(plan)), figure_cells(plan, tuning, decimals));
    if (ranges) cells.push_back(range_text(plan));
    table.rows.push_back(std::move(cells));
  }
  const TunedPlan& best = tuning.best.front();
  table.remarks.push_back(
      fmt::format("with the best one, 1e12 tokens take {} GPU-hours", significant(gpu_hours(best, trillion))));
  if (tuning.gpu_watts > 0)
    table.remarks.back() +=
        fmt::format(" and {} MWh, at {:g} W for each GPU",
                    significant(megawatt_hours(best, trillion, tuning.gpu_watts)), tuning.gpu_watts);
  return table;
}

TuningTable systems_table(const Tuning& tuning) {
  TuningTable table{"each system with its own best layout, and on the best one",
                    joined(joined({"system"}, layout_headings),
                           {"step\nms", "x of\nbest", "memory\nGiB", "recom-\nputed", "on best\nlayout"}),
                    {}};
  const int decimals = decimals_of(tuning);
  for (const TunedSystem& system : tuning.systems) {
    const TunedPlan& own = system.own;
    table.rows.push_back(joined(
        joined({printable(own.system, 20)}, layout_cells(own)),
        {fixed(1e3 * own.step.value(), decimals), fixed(own.step / tuning.best.front().step, 3), gigabytes(own.peak()),
         recomputed(own.plan), system.on_winners ? fixed(1e3 * system.on_winners->value(), decimals) : "-"}));
  }
  for (const RefusedSystem& refused : tuning.refused)
    table.remarks.push_back(fmt::format("{}: {}", printable(refused.system), printable(refused.reason)));
  return table;
}

TuningTable front_table(const Tuning& tuning) {
  TuningTable table{"no other plan of these is both faster and smaller",
                    joined(joined({"plan of"}, layout_headings), {"step\nms", "memory\nGiB"}),
                    {}};
  if (tuning.front.size() < 2) return table;
  const int decimals = decimals_of(tuning);
  for (const TunedPlan& plan : tuning.front)
    table.rows.push_back(joined(joined({printable(plan.system, 20)}, layout_cells(plan)),
                                {fixed(1e3 * plan.step.value(), decimals), gigabytes(plan.peak())}));
  return table;
}

// Whether the first of the plans is the fastest by the other means too. Ties are not told apart.
std::string order_remark(const Confirmation& confirmation) {
  if (confirmation.in_small) return "sizes differ from plan to plan, so these times do not rank them";
  const auto fastest = std::ranges::min_element(confirmation.plans, {}, &ConfirmedPlan::step);
  const ConfirmedPlan& first = confirmation.plans.front();
  constexpr double alike = 1e-3;
  if (fastest->step >= first.step * (1 - alike))
    return fmt::format("none of these is more than {:g} % faster there than plan {}", 100 * alike, first.rank);
  return fmt::format("there plan {} is the fastest, {:.2g} % faster than plan {}", fastest->rank,
                     100 * (1 - fastest->step / first.step), first.rank);
}

TuningTable confirmation_table(const Tuning& tuning) {
  TuningTable table;
  if (!tuning.confirmation) return table;
  const Confirmation& confirmation = *tuning.confirmation;
  const std::string& by = confirmation.by;
  table.title = confirmation.in_small ? fmt::format("the best plans, really run in small ({})", by)
                                      : fmt::format("the best plans, simulated by {}", by);
  table.headings = {"rank", "predicted\nms", (confirmation.in_small ? "measured" : by) + "\nms", "x"};
  const auto milliseconds = [&](Seconds time) {
    return confirmation.in_small ? significant(1e3 * time.value()) : fixed(1e3 * time.value(), decimals_of(tuning));
  };
  for (const ConfirmedPlan& plan : confirmation.plans)
    table.rows.push_back({std::to_string(plan.rank), milliseconds(plan.modelled), milliseconds(plan.step),
                          fixed(plan.step / plan.modelled, 3)});
  if (!confirmation.plans.empty()) table.remarks.push_back(order_remark(confirmation));
  for (const std::string& reason : confirmation.refused) table.remarks.push_back(printable(reason));
  return table;
}

TuningTable costs_table(const Tuning& tuning) {
  TuningTable table{"the costs that matter most for the best step",
                    {"cost", "known\nfrom", "within\nx", "step if\nlow, %", "high, %"},
                    {}};
  if (!tuning.best.front().range) return table;
  for (const CostInfluence& cost : tuning.best.front().range->costs)
    table.rows.push_back({printable(cost.cost, 60), std::string(name_in(origin_names, cost.origin)),
                          fmt::format("{:.3g}", cost.within), fmt::format("{:+.1f}", 100 * (cost.fast - 1)),
                          fmt::format("{:+.1f}", 100 * (cost.slow - 1))});
  return table;
}

TuningTable curve_table(const TuningCurve& curve) {
  std::vector<std::string> headings =
      joined(joined({"cluster", "GPUs"}, layout_headings),
             {"step\nms", "90 % range\nms", "M tok-\nens/s", "tokens/s\na GPU", "MFU\n%", "GPU-hours\nper 1e12"});
  if (curve.gpu_watts > 0) headings.emplace_back("MWh\nper 1e12");
  TuningTable table{"the best plan of each cluster", headings, {}};
  for (const TuningPoint& point : curve.points) {
    if (!point.best) {
      table.remarks.push_back(fmt::format("{}, {} GPUs: {}", point.cluster, point.gpus, printable(point.refusal)));
      continue;
    }
    const TunedPlan& plan = *point.best;
    const Throughput& t = plan.throughput;
    std::vector<std::string> cells =
        joined(joined({printable(point.cluster, 20), std::to_string(point.gpus)}, layout_cells(plan)),
               {significant(1e3 * plan.step.value()), range_text(plan), significant(t.tokens_per_second / 1e6),
                significant(t.of_gpu), t.mfu ? fixed(100 * *t.mfu, 1) : "-", significant(gpu_hours(plan, trillion))});
    if (curve.gpu_watts > 0) cells.push_back(significant(megawatt_hours(plan, trillion, curve.gpu_watts)));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

void write(std::ostream& out, const TuningTable& content, bool colour) {
  out << content.title << '\n';
  TextTable table(content.headings);
  for (const std::vector<std::string>& row : content.rows)
    table.add(row, &row == &content.rows.front() && content.best_first ? Ink::Bold : Ink::Plain);
  out << table.text(colour);
  for (const std::string& remark : content.remarks) out << wrapped(remark, width, 2) << '\n';
}

void write_notes(std::ostream& out, const std::vector<std::string>& notes) {
  if (notes.empty()) return;
  out << "\nnotes\n";
  for (const std::string& note : notes) out << wrapped("  - " + printable(note), width, 4) << '\n';
}

std::string share_text(double share) {
  return fmt::format("{:.2g} %", 100 * share);
}

std::string shares_of(const TuningFloor& floor, Seconds step) {
  std::string text = fmt::format("{} for layers", share_text(floor.layers / step));
  if (floor.again > Seconds(0)) text += fmt::format(", {} for what is computed again", share_text(floor.again / step));
  if (floor.filling > Seconds(0))
    text += fmt::format(", {} for filling the pipeline", share_text(floor.filling / step));
  return text;
}

// Says what lies between the best plan and the bound.
std::string gap_text(const Tuning& tuning) {
  const TuningProof& p = tuning.proof;
  const TunedPlan& best = tuning.best.front();
  if (!p.own || p.own->step <= Seconds(0)) return "";
  const Throughput& t = best.throughput;
  std::string text = fmt::format(
      ". Of the best step {} is exposed communication and {} is waiting; the floor of its own layout, {} of the step, "
      "has {}",
      share_text(t.exposed), share_text(t.waiting), share_text(p.own->step / best.step), shares_of(*p.own, best.step));
  if (p.bound >= p.own->step) return text;
  const Parallelism& g = p.lowest.groups;
  return text + fmt::format("; the bound is the floor of pp {}, mp {}, dp {}, ep {}, esp {}, micro-batch {}, with {}",
                            g.pp, g.mp, g.dp, g.ep, g.esp, p.lowest.micro_batch, shares_of(p.lowest, best.step));
}

}  // namespace

std::string proof_line(const Tuning& tuning) {
  const TuningProof& p = tuning.proof;
  const std::string memory =
      fmt::format("{} layouts divide everything; {} of them hold more than the memory whatever is recomputed",
                  p.layouts, p.too_large);
  if (tuning.best.empty())
    return memory + fmt::format(", and none holds less than {}{}", bytes(p.least),
                                p.enough_gpus ? fmt::format("; weights, gradients and optimizer states fit {} GPUs or "
                                                            "fewer",
                                                            *p.enough_gpus)
                                              : "");
  return memory + fmt::format(
                      "; {} plans on the others were estimated from {} kinds of stages, and {} whole steps predicted; "
                      "floors rule out {} layouts, and no plan of any layout takes less than {}, which is {} below the "
                      "best{}",
                      p.estimated, p.stages, p.predicted, p.slower, duration(p.bound),
                      share_text(1 - p.bound / tuning.best.front().step), gap_text(tuning));
}

std::vector<TuningTable> tuning_tables(const Tuning& tuning) {
  std::vector<TuningTable> tables{best_table(tuning), confirmation_table(tuning), systems_table(tuning),
                                  front_table(tuning), costs_table(tuning)};
  tables.front().best_first = true;
  std::erase_if(tables, [](const TuningTable& table) { return table.rows.empty() && table.remarks.empty(); });
  return tables;
}

std::vector<TuningTable> tuning_tables(const TuningCurve& curve) {
  return {curve_table(curve)};
}

std::vector<std::string> question_lines(const Tuning& tuning) {
  const Experiment& e = tuning.experiment;
  return {fmt::format("{} on {}, {} nodes x {} GPUs", printable(e.model.name), printable(e.cluster.name),
                      e.cluster.nodes, e.cluster.gpus_per_node),
          workload_text(e, fmt::format("{} samples of {} tokens", tuning.global_batch, e.workload.sequence)),
          fmt::format("{}; {} of {} of device memory may be used", costs_text(e), bytes(tuning.limit),
                      bytes(e.cluster.device.memory))};
}

std::vector<std::string> question_lines(const TuningCurve& curve) {
  std::vector<std::string> lines{fmt::format("{}: {}", printable(curve.model), curve.workload)};
  if (curve.gpu_watts > 0) lines.push_back(fmt::format("{:g} W for each GPU, as given", curve.gpu_watts));
  return lines;
}

void write_tuning(std::ostream& out, const Tuning& tuning, bool colour) {
  for (const std::string& line : question_lines(tuning)) out << line << '\n';
  bool first = true;
  for (const TuningTable& table : tuning_tables(tuning)) {
    out << '\n';
    write(out, table, colour);
    if (std::exchange(first, false) && tuning.explanation) {
      out << "\nexplanation\n";
      for (const std::string& paragraph : explanation_text(*tuning.explanation))
        out << wrapped("  " + paragraph, width, 2) << '\n';
    }
  }
  out << "\nhow it was found\n" << wrapped("  " + proof_line(tuning), width, 4) << '\n';
  write_notes(out, tuning.notes);
}

void write_tuning(std::ostream& out, const TuningCurve& curve, bool colour) {
  for (const std::string& line : question_lines(curve)) out << line << '\n';
  for (const TuningTable& table : tuning_tables(curve)) {
    out << '\n';
    write(out, table, colour);
  }
  write_notes(out, curve.notes);
}

}  // namespace dovetail::reports

// SPDX-License-Identifier: Apache-2.0
#include "reports/text/tuning_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <utility>

#include "models/base/names.hpp"
#include "reports/text/explanation_text.hpp"
#include "reports/text/format.hpp"
#include "reports/text/notes.hpp"
#include "reports/text/text_table.hpp"

namespace dovetail::reports {
namespace {

constexpr std::size_t few_plans = 5, few_systems = 5;  // without -v

std::size_t width(bool verbose) {
  return verbose ? 118 : 98;
}

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

std::vector<std::string> figure_cells(const TunedPlan& plan, const Tuning& tuning, int decimals, bool verbose) {
  const Throughput& t = plan.throughput;
  std::vector<std::string> cells{fixed(1e3 * plan.step.value(), decimals)};
  if (verbose) cells.push_back(fixed(t.of_gpu, 0));
  cells.push_back(t.mfu ? fixed(100 * *t.mfu, 1) : "-");
  cells.push_back(gigabytes(plan.peak()));
  if (verbose) cells.push_back(gigabytes(tuning.experiment.cluster.device.memory - plan.peak()));
  if (verbose) cells.push_back(fixed(100 * t.exposed, 1));
  if (verbose) cells.push_back(fixed(100 * t.waiting, 1));
  return cells;
}

const std::vector<std::string> layout_headings{"pp",  "stages\nof each", "mp",       "dp",  "ep",
                                               "esp", "micro\nbatch",    "of\nthem", "zero"};
std::vector<std::string> figure_headings(bool verbose) {
  if (!verbose) return {"step\nms", "MFU\n%", "memory\nGiB"};
  return {"step\nms", "tokens/s\na GPU", "MFU\n%", "memory\nGiB", "free\nGiB", "exposed\n%", "idle\n%"};
}

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

int decimals_of(const Tuning& tuning) {
  std::vector<double> steps;
  for (const TunedPlan& plan : tuning.best) steps.push_back(1e3 * plan.step.value());
  return decimals_for(steps);
}

// "pp 2, mp 1, dp 4, ep 8, esp 1, 16 micro-batches of 2"
std::string layout_text(const TunedPlan& plan) {
  const Parallelism& p = plan.groups;
  return fmt::format("pp {}, mp {}, dp {}, ep {}, esp {}, {} micro-batches of {}", p.pp, p.mp, p.dp, p.ep, p.esp,
                     plan.plan.micro_batches, plan.micro_batch);
}

std::string for_text(const std::string& framework) {
  return fmt::format("for {}: plans that it runs as they are", framework);
}

std::string range_text(const TunedPlan& plan) {
  if (!plan.range) return "-";
  return fmt::format("{}-{}", fixed(1e3 * plan.step.value() * plan.range->low, 0),
                     fixed(1e3 * plan.step.value() * plan.range->high, 0));
}

// "24800 GPU-hours for 1e12 tokens and 17.4 MWh, at 700 W for each GPU".
std::string price_of_training(const Tuning& tuning) {
  const TunedPlan& best = tuning.best.front();
  std::string text = fmt::format("{} GPU-hours for 1e12 tokens", significant(gpu_hours(best, trillion)));
  if (tuning.gpu_watts > 0)
    text += fmt::format(" and {} MWh, at {:g} W for each GPU",
                        significant(megawatt_hours(best, trillion, tuning.gpu_watts)), tuning.gpu_watts);
  return text;
}

std::string headline(const Tuning& tuning) {
  const TunedPlan& best = tuning.best.front();
  const Throughput& t = best.throughput;
  std::string text = fmt::format("best: predicted {} ms a step", fixed(1e3 * best.step.value(), decimals_of(tuning)));
  if (best.range) text += fmt::format(" (90 % range {})", range_text(best));
  text += fmt::format(", {} tokens/s a GPU", fixed(t.of_gpu, 0));
  if (t.mfu) text += fmt::format(", MFU {} %", fixed(100 * *t.mfu, 1));
  return text + fmt::format(", {} GiB; {}", gigabytes(best.peak()), price_of_training(tuning));
}

TuningTable best_table(const Tuning& tuning, bool verbose) {
  const bool ranges = tuning.best.front().range.has_value();
  std::vector<std::string> headings = joined(joined({"rank"}, layout_headings), figure_headings(verbose));
  if (ranges) headings.emplace_back("90 % range\nms");
  TuningTable table{"the best plans, one for each layout", headings, {}};
  const int decimals = decimals_of(tuning);
  for (std::size_t i = 0; i < std::min(verbose ? tuning.best.size() : few_plans, tuning.best.size()); ++i) {
    const TunedPlan& plan = tuning.best[i];
    std::vector<std::string> cells{fmt::format("{}{}", i + 1, plan.tied && i > 0 ? " tied" : "")};
    cells = joined(joined(cells, layout_cells(plan)), figure_cells(plan, tuning, decimals, verbose));
    if (ranges) cells.push_back(range_text(plan));
    table.rows.push_back(std::move(cells));
  }
  if (verbose) table.remarks.push_back("with the best one: " + price_of_training(tuning));
  return table;
}

// Systems whose rows differ in nothing but the name share one, unless all is shown.
void add_system(TuningTable& table, std::vector<std::string> cells, bool verbose) {
  const auto same = std::ranges::find_if(table.rows, [&](const std::vector<std::string>& row) {
    return std::equal(row.begin() + 1, row.end(), cells.begin() + 1, cells.end());
  });
  if (verbose || same == table.rows.end())
    table.rows.push_back(std::move(cells));
  else
    table.alike[static_cast<std::size_t>(same - table.rows.begin())].push_back(cells.front());
}

TuningTable systems_table(const Tuning& tuning, bool verbose) {
  std::vector<std::string> headings =
      joined(joined({"system"}, layout_headings), {"step\nms", "x of\nbest", "memory\nGiB", "on best\nlayout"});
  if (verbose) headings.emplace_back("recom-\nputed");
  TuningTable table{"each system with its own best layout, and on the best one", headings, {}};
  const int decimals = decimals_of(tuning);
  for (const TunedSystem& system : tuning.systems) {
    const TunedPlan& own = system.own;
    std::vector<std::string> cells =
        joined(joined({printable(own.system, 20)}, layout_cells(own)),
               {fixed(1e3 * own.step.value(), decimals), fixed(own.step / tuning.best.front().step, 3),
                gigabytes(own.peak()), system.on_winners ? fixed(1e3 * system.on_winners->value(), decimals) : "-"});
    if (verbose) cells.push_back(recomputed(own.plan));
    add_system(table, std::move(cells), verbose);
  }
  if (!verbose && table.rows.size() > few_systems) {
    table.remarks.push_back("the others, which are slower, with -v");
    table.rows.resize(few_systems);
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

std::string gain_text(std::optional<Seconds> step, Seconds than) {
  if (!step) return "-";
  const double gain = 100 * (1 - *step / than);
  return fixed(std::abs(gain) < .05 ? 0 : gain, 1);  // not -0.0
}

// Values of the best plan of all that the framework cannot have, and what it would gain by them.
TuningTable framework_table(const Tuning& tuning) {
  TuningTable table;
  if (!tuning.framework || !tuning.framework->any) return table;
  const ForFramework& framework = *tuning.framework;
  const Seconds own = tuning.best.front().step, any = framework.any->step;
  table.title = fmt::format("what {} cannot do, and what it would gain by that", framework.name);
  table.headings = {"in the best\nplan of all", "its own\ninstead", "gain\nalone, %", "all but\nit, %",
                    "which brings along"};
  for (const MissingValue& missing : framework.missing)
    table.rows.push_back({printable(fmt::format("{} {}", missing.key, missing.value), 34),
                          printable(missing.instead.empty() ? "-" : missing.instead, 16), gain_text(missing.alone, own),
                          gain_text(missing.all_but, own),
                          printable(fmt::format("{}", fmt::join(missing.along, ", ")), 26)});
  if (!table.rows.empty())
    table.remarks.emplace_back(
        "gains of a step: its best plan with this alone, the best plan of all with what it has instead; -: cannot be "
        "built, or takes too much memory");
  table.remarks.push_back(
      any < own ? fmt::format("all of it: {} a step, {} % less than {}, on {}", duration(any), gain_text(any, own),
                              duration(own), layout_text(*framework.any))
                : fmt::format("no plan of any framework was found that is faster than the best of {}", framework.name));
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

std::string share_text(double share) {
  return fmt::format("{:.2g} %", 100 * share);
}

std::string bound_text(const Tuning& tuning) {
  const Seconds bound = tuning.proof.bound;
  return fmt::format("no plan of any layout in up to 8 chunks takes less than {}, which is {} below the best",
                     duration(bound), share_text(1 - bound / tuning.best.front().step));
}

std::string brief_proof(const Tuning& tuning) {
  return fmt::format("the best of {} plans on {} layouts; {}", tuning.proof.estimated, tuning.proof.layouts,
                     bound_text(tuning));
}

void write(std::ostream& out, const TuningTable& content, bool colour, bool verbose) {
  out << inked(content.title, Ink::Bold, colour) << '\n';
  TextTable table(content.headings);
  for (std::size_t i = 0; i < content.rows.size(); ++i) {
    table.add(content.rows[i], i == 0 && content.best_first ? Ink::Bold : Ink::Plain);
    if (const auto alike = content.alike.find(i); alike != content.alike.end())
      table.add_remark(wrapped(fmt::format("    alike: {}", fmt::join(alike->second, ", ")), width(verbose), 4),
                       Ink::Dim);
  }
  if (!content.rows.empty()) out << table.text(colour);
  for (const std::string& remark : content.remarks) out << wrapped(remark, width(verbose), 2) << '\n';
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
                      "floors rule out {} layouts, and {}{}",
                      p.estimated, p.stages, p.predicted, p.slower, bound_text(tuning), gap_text(tuning));
}

std::vector<TuningTable> tuning_tables(const Tuning& tuning, bool verbose) {
  std::vector<TuningTable> tables{best_table(tuning, verbose), confirmation_table(tuning),
                                  systems_table(tuning, verbose), framework_table(tuning)};
  if (verbose) {
    tables.push_back(front_table(tuning));
    tables.push_back(costs_table(tuning));
  }
  tables.front().best_first = true;
  std::erase_if(tables, [](const TuningTable& table) { return table.rows.empty() && table.remarks.empty(); });
  return tables;
}

std::vector<TuningTable> tuning_tables(const TuningCurve& curve) {
  return {curve_table(curve)};
}

std::vector<std::string> question_lines(const Tuning& tuning) {
  const Experiment& e = tuning.experiment;
  std::vector<std::string> lines{
      fmt::format("{} on {}, {} nodes x {} GPUs", printable(e.model.name), printable(e.cluster.name), e.cluster.nodes,
                  e.cluster.gpus_per_node),
      workload_text(e, fmt::format("{} samples of {} tokens", tuning.global_batch, e.workload.sequence)),
      fmt::format("{}; {} of {} of memory may be used", costs_text(e), bytes(tuning.limit),
                  bytes(e.cluster.device.memory))};
  if (tuning.framework)
    lines.push_back(for_text(fmt::format("{} ({})", tuning.framework->name, tuning.framework->checked)));
  return lines;
}

std::vector<std::string> question_lines(const TuningCurve& curve) {
  std::vector<std::string> lines{fmt::format("{}: {}", printable(curve.model), curve.workload)};
  if (curve.gpu_watts > 0) lines.push_back(fmt::format("{:g} W for each GPU, as given", curve.gpu_watts));
  if (!curve.framework.empty()) lines.push_back(for_text(curve.framework));
  return lines;
}

void write_tuning(std::ostream& out, const Tuning& tuning, bool colour, bool verbose) {
  for (const std::string& line : question_lines(tuning)) out << wrapped(line, width(verbose), 2) << '\n';
  out << '\n' << inked(wrapped(headline(tuning), width(verbose), 2), Ink::Bold, colour) << '\n';
  bool first = true;
  for (const TuningTable& table : tuning_tables(tuning, verbose)) {
    out << '\n';
    write(out, table, colour, verbose);
    if (std::exchange(first, false) && tuning.explanation) {
      out << '\n' << inked("explanation", Ink::Bold, colour) << '\n';
      for (const std::string& paragraph : explanation_text(*tuning.explanation))
        out << wrapped("  " + paragraph, width(verbose), 2) << '\n';
    }
  }
  out << '\n';
  if (verbose)
    out << inked("how it was found", Ink::Bold, colour) << '\n' << wrapped("  " + proof_line(tuning), width(true), 4);
  else
    out << wrapped(brief_proof(tuning), width(false), 2);
  out << '\n';
  constexpr std::size_t few = 3;
  write_notes(out, tuning.notes, colour, width(verbose), verbose ? std::string::npos : few);
}

void write_tuning(std::ostream& out, const TuningCurve& curve, bool colour) {
  for (const std::string& line : question_lines(curve)) out << line << '\n';
  for (const TuningTable& table : tuning_tables(curve)) {
    out << '\n';
    write(out, table, colour, /*verbose=*/true);
  }
  write_notes(out, curve.notes, colour, width(/*verbose=*/true), std::string::npos);
}

}  // namespace dovetail::reports

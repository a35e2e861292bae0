#include "reports/text/tuning_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

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

void write_best(std::ostream& out, const Tuning& tuning, bool colour) {
  const bool ranges = tuning.best.front().range.has_value();
  std::vector<std::string> headings = joined(joined({"rank"}, layout_headings), figure_headings);
  if (ranges) headings.emplace_back("90 % range\nms");
  TextTable table(headings);
  const int decimals = decimals_of(tuning);
  for (std::size_t i = 0; i < tuning.best.size(); ++i) {
    const TunedPlan& plan = tuning.best[i];
    std::vector<std::string> cells{fmt::format("{}{}", i + 1, plan.tied && i > 0 ? " tied" : "")};
    cells = joined(joined(cells, layout_cells(plan)), figure_cells(plan, tuning, decimals));
    if (ranges)
      cells.push_back(fmt::format("{}-{}", fixed(1e3 * plan.step.value() * plan.range->low, 0),
                                  fixed(1e3 * plan.step.value() * plan.range->high, 0)));
    table.add(cells, i == 0 ? Ink::Bold : Ink::Plain);
  }
  out << "the best plans, one for each layout\n" << table.text(colour);
}

void write_systems(std::ostream& out, const Tuning& tuning, bool colour) {
  if (tuning.systems.empty() && tuning.refused.empty()) return;
  TextTable table(joined(joined({"system"}, layout_headings),
                         {"step\nms", "x of\nbest", "memory\nGiB", "recom-\nputed", "on best\nlayout"}));
  const int decimals = decimals_of(tuning);
  for (const TunedSystem& system : tuning.systems) {
    const TunedPlan& own = system.own;
    table.add(joined(
        joined({printable(own.system, 20)}, layout_cells(own)),
        {fixed(1e3 * own.step.value(), decimals), fixed(own.step / tuning.best.front().step, 3), gigabytes(own.peak()),
         recomputed(own.plan), system.on_winners ? fixed(1e3 * system.on_winners->value(), decimals) : "-"}));
  }
  out << "\neach system with its own best layout, and on the best one\n" << table.text(colour);
  for (const RefusedSystem& refused : tuning.refused)
    out << wrapped(fmt::format("{}: {}", printable(refused.system), printable(refused.reason)), width, 2) << '\n';
}

void write_front(std::ostream& out, const Tuning& tuning, bool colour) {
  if (tuning.front.size() < 2) return;
  TextTable table(joined(joined({"plan of"}, layout_headings), {"step\nms", "memory\nGiB"}));
  const int decimals = decimals_of(tuning);
  for (const TunedPlan& plan : tuning.front)
    table.add(joined(joined({printable(plan.system, 20)}, layout_cells(plan)),
                     {fixed(1e3 * plan.step.value(), decimals), gigabytes(plan.peak())}));
  out << "\nno other plan of these is both faster and smaller\n" << table.text(colour);
}

void write_costs(std::ostream& out, const Tuning& tuning) {
  if (!tuning.best.front().range || tuning.best.front().range->costs.empty()) return;
  out << "\nthe costs that matter most for the best step\n";
  for (const CostInfluence& cost : tuning.best.front().range->costs)
    out << wrapped(fmt::format("  {} ({}, within {:.2g} x): {:+.0f} % to {:+.0f} %", cost.cost,
                               name_in(origin_names, cost.origin), cost.within, 100 * (cost.fast - 1),
                               100 * (cost.slow - 1)),
                   width, 4)
        << '\n';
}

}  // namespace

std::string proof_line(const Tuning& tuning) {
  const TuningProof& p = tuning.proof;
  std::string line = fmt::format(
      "{} layouts divide everything; {} of them hold more than the memory whatever is recomputed; {} plans on the "
      "others "
      "were estimated from {} kinds of stages, and {} whole steps predicted",
      p.layouts, p.too_large, p.estimated, p.stages, p.predicted);
  if (tuning.best.empty() && p.layouts > 0)
    return line + fmt::format("; the least that one holds is {}", bytes(p.least));
  if (tuning.best.empty()) return line;
  const Seconds best = tuning.best.front().step;
  return line + fmt::format(
                    "; computing alone rules out {} layouts, and no plan of any layout takes less than {}, which "
                    "is {:.2g} % below the best",
                    p.slower, duration(p.bound), 100 * (1 - p.bound / best));
}

void write_tuning(std::ostream& out, const Tuning& tuning, bool colour) {
  const Experiment& e = tuning.experiment;
  out << fmt::format(
      "{} on {}, {} nodes x {} GPUs\n{} samples of {} tokens a step; {} of {} of device memory may be used\n\n",
      printable(e.model.name), printable(e.cluster.name), e.cluster.nodes, e.cluster.gpus_per_node, tuning.global_batch,
      e.workload.sequence, bytes(tuning.limit), bytes(e.cluster.device.memory));
  write_best(out, tuning, colour);
  if (tuning.explanation) {
    out << "\nexplanation\n";
    for (const std::string& paragraph : explanation_text(*tuning.explanation))
      out << wrapped("  " + paragraph, width, 2) << '\n';
  }
  write_systems(out, tuning, colour);
  write_front(out, tuning, colour);
  write_costs(out, tuning);
  out << "\nhow it was found\n" << wrapped("  " + proof_line(tuning), width, 4) << '\n';
  if (tuning.notes.empty()) return;
  out << "\nnotes\n";
  for (const std::string& note : tuning.notes) out << wrapped("  - " + printable(note), width, 4) << '\n';
}

}  // namespace dovetail::reports

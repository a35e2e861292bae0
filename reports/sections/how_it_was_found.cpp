// SPDX-License-Identifier: Apache-2.0
// How layouts were searched, and how far the best may be from the optimum.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "models/files/experiment_json.hpp"
#include "reports/data/json_values.hpp"
#include "reports/sections/cells.hpp"
#include "reports/sections/proof_line.hpp"
#include "reports/sections/section.hpp"

namespace dovetail::reports {
namespace {

std::string share_text(double share) {
  return fmt::format("{:.2g} %", 100 * share);
}

std::string bound_text(const Report& report) {
  const Seconds bound = report.tuning->proof.bound;
  return fmt::format("no plan of any layout in up to 8 chunks takes less than {}, which is {} below the best",
                     duration(bound), share_text(1 - bound / report.results.front().metrics.makespan));
}

std::string shares_of(const TuningFloor& floor, Seconds step) {
  std::string text = fmt::format("{} for layers", share_text(floor.layers / step));
  if (floor.again > Seconds(0)) text += fmt::format(", {} for what is computed again", share_text(floor.again / step));
  if (floor.filling > Seconds(0))
    text += fmt::format(", {} for filling the pipeline", share_text(floor.filling / step));
  return text;
}

// Says what lies between the best plan and the bound.
std::string gap_text(const Report& report) {
  const TuningProof& p = report.tuning->proof;
  const SystemResult& best = report.results.front();
  const Seconds step = best.metrics.makespan;
  if (!p.own || p.own->step <= Seconds(0)) return "";
  const Throughput& t = best.throughput;
  std::string text = fmt::format(
      ". Of the best step {} is exposed communication and {} is waiting; the floor of its own layout, {} of the step, "
      "has {}",
      share_text(t.exposed), share_text(t.waiting), share_text(p.own->step / step), shares_of(*p.own, step));
  if (p.bound >= p.own->step) return text;
  const Parallelism& g = p.lowest.groups;
  return text + fmt::format("; the bound is the floor of pp {}, mp {}, dp {}, ep {}, esp {}, micro-batch {}, with {}",
                            g.pp, g.mp, g.dp, g.ep, g.esp, p.lowest.micro_batch, shares_of(p.lowest, step));
}

SectionContent found_content(const Report& report, Detail detail) {
  SectionContent content;
  if (!report.tuning || report.results.empty()) return content;
  const TuningProof& p = report.tuning->proof;
  content.lines.push_back({detail == Detail::Brief ? fmt::format("the best of {} plans on {} layouts; {}", p.estimated,
                                                                 p.layouts, bound_text(report))
                                                   : proof_line(report)});
  return content;
}

nlohmann::ordered_json floor_json(const TuningFloor& floor) {
  return {{"parallelism", dovetail::to_json(floor.groups)},
          {"micro_batch", floor.micro_batch},
          {"step_s", number(floor.step)},
          {"layers_s", number(floor.layers)},
          {"again_s", number(floor.again)},
          {"filling_s", number(floor.filling)}};
}

void add_proof(const Report& report, nlohmann::ordered_json& file) {
  if (!report.tuning) return;
  const TuningProof& p = report.tuning->proof;
  file["proof"] = {{"layouts", p.layouts},
                   {"too_large", p.too_large},
                   {"slower", p.slower},
                   {"estimated", p.estimated},
                   {"stages", p.stages},
                   {"predicted", p.predicted},
                   {"bound_s", number(p.bound)},
                   {"seconds", number(p.time)},
                   {"lowest", floor_json(p.lowest)},
                   {"own", p.own ? floor_json(*p.own) : nlohmann::ordered_json(nullptr)}};
}

}  // namespace

std::string proof_line(const Report& report) {
  const TuningProof& p = report.tuning->proof;
  const std::string memory =
      fmt::format("{} layouts divide everything; {} of them hold more than the memory whatever is recomputed",
                  p.layouts, p.too_large);
  if (report.results.empty())
    return memory + fmt::format(", and none holds less than {}{}", bytes(p.least),
                                p.enough_gpus ? fmt::format("; weights, gradients and optimizer states fit {} GPUs or "
                                                            "fewer",
                                                            *p.enough_gpus)
                                              : "");
  return memory + fmt::format(
                      "; {} plans on the others were estimated from {} kinds of stages, and {} whole steps predicted; "
                      "floors rule out {} layouts, and {}{}",
                      p.estimated, p.stages, p.predicted, p.slower, bound_text(report), gap_text(report));
}

Section how_it_was_found() {
  return {"how it was found", Titled::InFull, "", found_content, nullptr, nullptr, add_proof};
}

}  // namespace dovetail::reports

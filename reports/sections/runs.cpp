// SPDX-License-Identifier: Apache-2.0
// Plans that really ran, beside what the model says of them.
#include <fmt/format.h>

#include <algorithm>

#include "reports/sections/cells.hpp"
#include "reports/sections/section.hpp"
#include "reports/text/summary.hpp"

namespace dovetail::reports {
namespace {

std::string clock_text(const ClockReading& clock) {
  return clock.mhz > 0 ? fmt::format("; at {:.0f} MHz and {:.0f} W", clock.mhz, clock.watts) : "";
}

SectionLine numerics_line(const RunReport& run) {
  if (!run.numerics_checked) return {"outputs and gradients were not compared with the reference", Mark::Dim};
  const double error = std::max(run.output_error, run.gradient_error);
  return {fmt::format("outputs and gradients equal the reference: {} (error {:.1e})", run.numerics_ok ? "yes" : "NO",
                      error),
          run.numerics_ok ? Mark::Good : Mark::Bad};
}

SectionLine training_line(const TrainingReport& training) {
  std::string line = fmt::format("loss {:.4f} at step 1, {:.4f} at step {}", training.losses.front(),
                                 training.losses.back(), training.losses.size());
  if (!training.reference_losses.empty()) {
    const std::string_view equal = !training.tolerance ? "not judged" : training.ok ? "yes" : "NO";
    line += fmt::format("; equal to the sequential training: {} (error {:.1e})", equal, training.loss_error);
  }
  return {line, training.ok ? Mark::Good : Mark::Bad};
}

SectionRow row_of(const SummaryRow& row, int decimals) {
  const RunReport& run = *row.result->run;
  const auto modelled = row.expected ? std::optional(row.expected->metrics.makespan) : std::nullopt;
  SectionRow result{{name_of(*row.result), in_ms(modelled, decimals), in_ms(row.result->metrics.makespan, decimals),
                     in_ms(run.ci95_low, decimals) + " - " + in_ms(run.ci95_high, decimals),
                     fixed(row.measured_ratio, 3), fixed(run.dilation, 1), fixed(run.emulated_share * 100, 0),
                     std::to_string(run.overruns), std::to_string(run.samples.size())}};
  result.remarks.push_back(numerics_line(run));
  if (run.training) result.remarks.push_back(training_line(*run.training));
  result.remarks.push_back({fmt::format("on {} over {}, {} ranks; stopped by {}{}", run.device, run.transport,
                                        run.ranks, run.stopped_by, clock_text(run.clock)),
                            Mark::Dim});
  return result;
}

SectionContent runs_content(const Report& report, Detail) {
  SectionContent content;
  content.headings = {"\nmeasured beside modelled", "modelled\nms",         "measured\nms",
                      "95 %\ninterval ms",          "measured /\nmodelled", "\ndilation",
                      "emulated\nshare %",          "\noverruns",           "\nsamples"};
  for (const SummaryRow& row : summarize(report))
    if (row.result->run) content.rows.push_back(row_of(row, ms_decimals(report)));
  return content;
}

}  // namespace

Section runs() {
  return {"measured beside modelled", Titled::OnPages, "", runs_content};
}

}  // namespace dovetail::reports

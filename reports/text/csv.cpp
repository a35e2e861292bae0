// SPDX-License-Identifier: Apache-2.0
#include "reports/text/csv.hpp"

#include <fmt/format.h>

#include <cmath>
#include <ostream>

#include "models/base/names.hpp"
#include "models/base/plain_text.hpp"
#include "reports/text/format.hpp"
#include "reports/text/summary.hpp"

namespace dovetail::reports {

std::string csv_text(std::string_view value) {
  constexpr std::string_view formulas = "=+-@";
  std::string plain = plain_text(value);
  if (!plain.empty() && formulas.find(plain.front()) != std::string_view::npos) plain.insert(0, 1, '\'');
  if (plain.find_first_of(",\"") == std::string::npos) return plain;
  return '"' + replaced(std::move(plain), "\"", "\"\"") + '"';
}

std::string csv_number(std::optional<double> value) {
  return value && std::isfinite(*value) ? fmt::format("{}", *value) : "";
}

namespace {

std::string number(std::optional<double> value) {
  return csv_number(value);
}
std::string number(Seconds value) {
  return number(value.value());
}
std::string number(Bytes value) {
  return number(value.value());
}
std::string number(std::optional<Seconds> value) {
  return value ? number(*value) : "";
}

std::string row_text(const SummaryRow& row) {
  const SystemResult& result = *row.result;
  const auto& run = result.run;
  const std::vector<std::string> cells = {csv_text(result.system),
                                          std::string(name_in(result_kind_names, result.timeline.kind)),
                                          csv_text(result.backend),
                                          std::to_string(result.plan.forward_degree),
                                          backward_degrees(result.plan),
                                          number(result.metrics.makespan),
                                          number(row.forward),
                                          number(row.backward),
                                          number(row.speedup),
                                          number(result.metrics.exposed_communication),
                                          number(result.lower_bound),
                                          number(result.plan_bound),
                                          number(result.memory.peak),
                                          result.feasible ? "true" : "false",
                                          result.feasible ? "" : number(result.missing),
                                          number(row.measured_ratio),
                                          run ? number(run->ci95_low) : "",
                                          run ? number(run->ci95_high) : "",
                                          run ? number(run->dilation) : "",
                                          run ? number(run->emulated_share) : "",
                                          run ? std::to_string(run->overruns) : "",
                                          result.range ? number(result.range->low * result.metrics.makespan) : "",
                                          result.range ? number(result.range->high * result.metrics.makespan) : ""};
  return fmt::format("{}\n", fmt::join(cells, ","));
}

}  // namespace

void write_csv(std::ostream& out, const Report& report) {
  out << "system,kind,backend,forward_degree,backward_degree,iteration_s,forward_s,backward_s,speedup,"
         "exposed_communication_s,lower_bound_s,plan_bound_s,peak_bytes,feasible,missing_bytes,"
         "measured_over_modelled,ci95_low_s,ci95_high_s,dilation,emulated_share,overruns,interval_low_s,interval_high_"
         "s\n";
  for (const SummaryRow& row : summarize(report)) out << row_text(row);
}

}  // namespace dovetail::reports

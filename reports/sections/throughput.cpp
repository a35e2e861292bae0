// SPDX-License-Identifier: Apache-2.0
// The figures that a step achieves: tokens a second, model flops and the share in which GPUs wait.
#include "models/results/throughput.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "reports/sections/cells.hpp"
#include "reports/sections/section.hpp"

namespace dovetail::reports {
namespace {

// Plans on layouts have these figures in their own table.
SectionContent throughput_content(const Report& report, Detail detail) {
  SectionContent content;
  if (detail == Detail::Brief || report.tuning) return content;
  if (report.kind == "run") return content;  // scaled down, and mostly held to modelled times
  content.headings = {"system",   "global\nbatch",   "tokens\na step",
                      "tokens/s", "tokens/s\na GPU", "model TFLOP/s\na GPU",
                      "MFU\n%",   "exposed\n%",      "waiting\n%"};
  for (const SystemResult& result : report.results) {
    const Throughput& t = result.throughput;
    if (t.tokens_per_second <= 0) continue;
    content.rows.push_back(
        {{name_of(result), fmt::format("{}", t.samples), fmt::format("{}", t.tokens),
          fmt::format("{:.4g}", t.tokens_per_second), fmt::format("{:.4g}", t.of_gpu),
          fmt::format("{:.3g}", t.model_flops.value() / 1e12), t.mfu ? fmt::format("{:.3g}", 100 * *t.mfu) : "-",
          fmt::format("{:.1f}", 100 * t.exposed), fmt::format("{:.1f}", 100 * t.waiting)}});
  }
  return content;
}

nlohmann::ordered_json throughput_json(const SystemResult& result) {
  const Throughput& t = result.throughput;
  nlohmann::ordered_json json{{"samples", t.samples},
                              {"tokens", t.tokens},
                              {"tokens_per_s", t.tokens_per_second},
                              {"tokens_per_s_per_gpu", t.of_gpu},
                              {"model_flops_per_s_per_gpu", t.model_flops.value()}};
  if (t.mfu) json["mfu"] = *t.mfu;
  json["exposed_share"] = t.exposed;
  json["waiting_share"] = t.waiting;
  return json;
}

}  // namespace

Section throughput() {
  return {
      "throughput",
      Titled::Always,
      "Model flops of a token: 6 x the active parameters of products (2 x in a forward pass alone), and "
      "attention's 3 s heads (query + value size) a layer; embedding look-up, recomputation and padding count "
      "nothing. MFU divides them by the peak of the products' format. Exposed: communication without computation. "
      "Waiting: neither runs (pipeline bubble, launches, other ranks). Both are means over all ranks, which compute "
      "for the rest of the step.",
      throughput_content,
      "throughput",
      throughput_json};
}

}  // namespace dovetail::reports

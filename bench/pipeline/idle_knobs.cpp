// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/idle_knobs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "models/base/names.hpp"

namespace dovetail::bench {
namespace {

// The planner that chooses how GPUs share an expert.
constexpr std::string_view chooses_sharing = "tutel_adaptive";

template <class Where>
std::string systems_where(const Report& report, Where where) {
  std::vector<std::string> names;
  for (const SystemResult& result : report.results)
    if (where(result)) names.push_back(result.system);
  return fmt::format("{}", fmt::join(names, ", "));
}

// Exchanges of several steps: inside nodes first, then between them.
bool has_levels(const SystemResult& result) {
  const AllToAll algorithm = result.plan.all_to_all;
  return algorithm != AllToAll::Linear && algorithm != AllToAll::NodeDeduplicated;
}

}  // namespace

std::vector<std::string> idle_knobs(const Report& report) {
  const Experiment& e = report.experiment;
  const Parallelism& p = e.parallelism;
  std::vector<std::string> notes;
  if (e.model.dense()) return notes;
  if (p.ep == 1 && p.esp == 1)
    notes.emplace_back("ep 1, esp 1: each GPU has all experts, so that no system has exchanges with them to hide");
  if (p.ep == 1) return notes;
  const int here = ranks_per_node(p, GroupKind::Ep, e.cluster);
  if (const std::string names = systems_where(report, has_levels); !names.empty() && (here == 1 || here == p.ep))
    notes.push_back(fmt::format("{}: plan.all_to_all has nothing to act on, since {}", names,
                                here == 1 ? "the GPUs that exchange rows are on a node each"
                                          : fmt::format("the {} GPUs that exchange rows are on one node", p.ep)));
  const auto chooses = [](const SystemResult& result) { return result.planner.name == chooses_sharing; };
  if (const std::string names = systems_where(report, chooses); !names.empty() && p.esp == 1)
    notes.push_back(
        fmt::format("{}: plan.expert_sharding has nothing to choose, since each expert has a GPU of its own (esp 1); "
                    "--set parallelism.esp=2 lets two share one",
                    names));
  return notes;
}

}  // namespace dovetail::bench

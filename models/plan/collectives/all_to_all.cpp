// SPDX-License-Identifier: Apache-2.0
#include "models/plan/collectives/all_to_all.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "models/base/errors.hpp"
#include "models/plan/collectives/delivery.hpp"
#include "models/plan/expert_sharding.hpp"
#include "models/plan/refuse.hpp"

namespace dovetail {
namespace {

// As many levels as given, or the ranks on a node and the nodes.
std::vector<int> above_one(std::span<const int> levels) {
  std::vector<int> sizes;
  std::ranges::copy_if(levels, std::back_inserter(sizes), [](int size) { return size > 1; });
  return sizes;
}

std::vector<int> levels_of(const Plan& plan, int ranks, int on_node) {
  if (plan.all_to_all_levels.empty()) return {on_node, ranks / on_node};
  std::int64_t product = 1;
  for (int size : plan.all_to_all_levels)
    product = std::min<std::int64_t>(product * std::clamp(size, 0, ranks + 1), ranks + 1);
  if (product != ranks)
    refuse("all_to_all_levels", fmt::format("{} multiply up to something other than the {} ranks that share experts",
                                            fmt::join(plan.all_to_all_levels, " x "), ranks));
  return plan.all_to_all_levels;
}

std::vector<CollectiveStep> own_steps(const CustomAllToAll& own, std::span<const int> levels, int ranks) {
  const std::vector<int> sizes = above_one(levels);
  std::vector<CollectiveStep> steps = own.steps(sizes);
  if (const std::string error = delivery_error(steps, ranks); !error.empty())
    refuse("all_to_all",
           fmt::format("the steps of the all-to-all {} for {} ranks do not deliver: {}", own.name(), ranks, error));
  return steps;
}

int even_ranks_per_node(const Parallelism& groups, const Cluster& cluster) {
  const int ranks = ranks_per_node(groups, GroupKind::Ep, cluster);
  if (ranks == 0) refuse("all_to_all", "expected linear: nodes have different numbers of the ranks that share experts");
  return ranks;
}

}  // namespace

std::vector<CollectiveStep> all_to_all_steps(AllToAll algorithm, Levels levels) {
  const std::vector<int> sizes = above_one(levels);
  for (const auto& [name, steps] : all_to_all_algorithms)
    if (name == algorithm) return steps(sizes);
  throw InternalError("an all-to-all algorithm without steps");
}

bool has_steps(const Plan& plan, const Experiment& e) {
  if (e.extensions.all_to_all != nullptr) return true;
  return plan.all_to_all != AllToAll::Linear && plan.all_to_all != AllToAll::NodeDeduplicated;
}

std::vector<CollectiveStep> all_to_all_steps(const Plan& plan, const Experiment& e) {
  if (!has_steps(plan, e)) return {};
  const Parallelism groups = exchange_groups(plan, e.parallelism);
  const CustomAllToAll* const own = e.extensions.all_to_all.get();
  if (own != nullptr && groups.ep == 1) return {};
  const int on_node = even_ranks_per_node(groups, e.cluster);
  const std::vector<int> levels = levels_of(plan, groups.ep, on_node);
  std::vector<CollectiveStep> steps =
      own == nullptr ? all_to_all_steps(plan.all_to_all, levels) : own_steps(*own, levels, groups.ep);
  for (const CollectiveStep& step : steps)
    if (members_per_node(step.subgroup, on_node) == 0)
      refuse("all_to_all_levels",
             fmt::format("{} cut a node's {} ranks into unequal parts", fmt::join(levels, " x "), on_node));
  if (steps.size() == 1) steps.clear();
  return steps;
}

int deduplicating_ranks(const Plan& plan, const Experiment& e) {
  if (plan.all_to_all != AllToAll::NodeDeduplicated || e.parallelism.ep == 1) return 0;
  return even_ranks_per_node(exchange_groups(plan, e.parallelism), e.cluster);
}

}  // namespace dovetail

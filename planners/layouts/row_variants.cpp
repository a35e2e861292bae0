// SPDX-License-Identifier: Apache-2.0
#include "planners/layouts/row_variants.hpp"

#include <algorithm>

#include "models/plan/knob_table.hpp"
#include "planners/steps/one_stage.hpp"
#include "planners/steps/refusal.hpp"

namespace dovetail::planners {
namespace {

std::vector<Plan> exchanges(const Plan& base) {
  std::vector<Plan> found{base};
  for (const auto& [name, algorithm] : all_to_all_names)
    for (const auto& [how, implementation] : all_to_all_implementation_names) {
      Plan& plan = found.emplace_back(base);
      plan.all_to_all = algorithm;
      plan.all_to_all_implementation = implementation;
      if (algorithm != AllToAll::NodeDeduplicated) continue;
      plan.scores_at = ScoresAt::Experts;
      plan.protocol = Protocol::Simple;
    }
  return found;
}

}  // namespace

RowVariants::RowVariants(const Experiment& stage, const Plan& base, const Hold& hold)
    : stage_(stage), base_(of_one_stage(base)), hold_(hold) {
  for (const KnobClass group : {KnobClass::Degrees, KnobClass::Arrangement}) copy_knobs(group, Plan{}, base_);
  Plan dense = base_;
  dense.encoding = Encoding::Dense;
  if (!legal(base_) && legal(dense)) base_ = dense;
  Plan by_size = base_;
  by_size.protocol = Protocol::BySize;
  if (legal(by_size)) base_.protocol = Protocol::BySize;
}

std::optional<Plan> RowVariants::legal(const Plan& plan) const {
  Plan held = plan;
  if (hold_) hold_(held);
  held = of_one_stage(held);
  for (const KnobClass group : {KnobClass::Degrees, KnobClass::Arrangement}) copy_knobs(group, plan, held);
  if (refusal(held, stage_)) return std::nullopt;
  return held;
}

std::vector<std::vector<Plan>> RowVariants::sharded(bool all_exchanges) const {
  std::vector<std::vector<Plan>> found;
  for (const Plan& plan : shardings())
    for (const Plan& sent : all_exchanges ? exchanges(plan) : std::vector<Plan>{plan}) {
      const bool first = found.empty() || found.back().front().expert_sharding != sent.expert_sharding ||
                         found.back().front().sharding_repeats != sent.sharding_repeats;
      std::vector<Plan> none;
      std::vector<Plan>& here = first ? none : found.back();
      add(sent, here);
      if (!none.empty()) found.push_back(std::move(none));
    }
  return found;
}

std::vector<Plan> RowVariants::encoded() const {
  std::vector<Plan> found;
  Plan plan = base_;
  plan.encoding = Encoding::Dense;
  add(plan, found);
  add(lean(), found);
  add(base_, found);
  return found;
}

std::vector<Plan> RowVariants::in_chunks(Plan plan, int most_degree) const {
  std::vector<Plan> found;
  plan.scope = Scope::Moe;
  for (plan.forward_degree = 2; plan.forward_degree <= most_degree; ++plan.forward_degree) {
    plan.backward_degree = plan.forward_degree;
    add(plan, found);
  }
  return found;
}

std::vector<Plan> RowVariants::blocks(int most_degree) const {
  std::vector<Plan> found;
  for (int degree = 2; degree <= most_degree; ++degree) {
    Plan plan = base_;
    plan.scope = Scope::Block;
    plan.forward_degree = plan.backward_degree = degree;
    Plan held = plan;
    if (hold_) hold_(held);
    if (held.scope == Scope::Block) add(plan, found);
  }
  return found;
}

Plan RowVariants::lean() const {
  Plan plan = base_;
  for (const auto& change :
       std::vector<std::function<void(Plan&)>>{[](Plan& p) { p.scores_at = ScoresAt::Experts; },
                                               [](Plan& p) { p.expert_kernel = ExpertKernel::Grouped; }}) {
    Plan other = plan;
    change(other);
    if (legal(other)) plan = other;
  }
  return plan;
}

void RowVariants::add(const Plan& plan, std::vector<Plan>& found) const {
  if (const std::optional<Plan> built = legal(plan); built && std::ranges::count(found, *built) == 0)
    found.push_back(*built);
}

// With the kernel that tells the rows of experts apart, if there is one: it knows of the other one too.
Plan RowVariants::in_own_rows(const Plan& plan) const {
  Plan grouped = plan;
  grouped.expert_kernel = ExpertKernel::Grouped;
  return legal(grouped) ? grouped : plan;
}

std::vector<Plan> RowVariants::shardings() const {
  std::vector<Plan> found{in_own_rows(base_)};
  const int esp = stage_.parallelism.esp;
  if (esp == 1) return found;
  Plan plan = found.front();
  plan.expert_sharding = ExpertSharding::EpDp;
  found.push_back(plan);
  plan.expert_sharding = ExpertSharding::EpMp;
  for (plan.sharding_repeats = 1; plan.sharding_repeats <= esp; ++plan.sharding_repeats)
    if (esp % plan.sharding_repeats == 0) found.push_back(plan);
  return found;
}

}  // namespace dovetail::planners

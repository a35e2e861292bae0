// SPDX-License-Identifier: Apache-2.0
#include "models/plan/extension_rules.hpp"

#include "models/base/names.hpp"
#include "models/plan/refuse.hpp"

namespace dovetail {
namespace {

// `part`: what the plan has to go with, such as "expert gelu".
class PlanRequirements {
 public:
  explicit PlanRequirements(std::string part) : part_(std::move(part)) {}
  template <class Value, class Names>
  void operator()(std::string_view knob, Value value, Value expected, const Names& names) const {
    if (value != expected)
      refuse(knob, fmt::format("{} is not built yet together with the {}; expected {}", name_in(names, value), part_,
                               name_in(names, expected)));
  }
  const std::string& part() const { return part_; }

 private:
  std::string part_;
};

void require_expert_extension(const Plan& p, const Experiment& e) {
  const PlanRequirements require("expert " + e.extensions.expert->name());
  require("scores_at", p.scores_at, ScoresAt::Decode, scores_at_names);
  require("expert_sharding", p.expert_sharding, ExpertSharding::Ep, expert_sharding_names);
  if (!p.shadowed_experts.empty())
    refuse("shadowed_experts", fmt::format("not built yet together with the {}; expected none", require.part()));
}

void require_order_extension(const Plan& p, const Experiment& e) {
  const PlanRequirements require("order " + e.extensions.order->name());
  require("encoding", p.encoding, Encoding::Sparse, encoding_names);
  require("scores_at", p.scores_at, ScoresAt::Decode, scores_at_names);
}

void require_all_to_all_extension(const Plan& p, const Experiment& e) {
  const PlanRequirements require("all-to-all " + e.extensions.all_to_all->name());
  require("all_to_all", p.all_to_all, AllToAll::Linear, all_to_all_names);
  require("split", p.split, Split::Capacity, split_names);
  if (e.workload.message_sizes == MessageSizes::Routed)
    throw InputError(Location{"", 0, 0, "/workload/message_sizes"},
                     fmt::format("routed is not built yet with the {}; expected padded", require.part()));
}

}  // namespace

void require_extensions(const Plan& p, const Experiment& e) {
  if (e.extensions.expert != nullptr) require_expert_extension(p, e);
  if (e.extensions.order != nullptr) require_order_extension(p, e);
  if (e.extensions.all_to_all != nullptr) require_all_to_all_extension(p, e);
}

}  // namespace dovetail

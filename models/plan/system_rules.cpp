// SPDX-License-Identifier: Apache-2.0
#include "models/plan/system_rules.hpp"

#include <fmt/format.h>

#include <array>

#include "models/base/names.hpp"
#include "models/plan/refuse.hpp"

namespace dovetail {
namespace {

void require_megatron_overlap(const Plan& plan, const Experiment& e) {
  constexpr std::string_view system = "Megatron-LM";
  const bool pairs = plan.scope == Scope::Batch;
  if (pairs) {
    if (const std::string why = no_megatron_pairs_because(plan, e); !why.empty())
      refuse("scope", fmt::format("batch is not for {} here: {}", system, why));
    if (plan.pair_order == PairOrder::ExpertsFirst)
      refuse("pair_order",
             fmt::format("experts_first is no order of {}; expected alternate or attention_early", system));
    if (plan.shared_experts == SharedExperts::Overlapped)
      refuse("shared_experts", fmt::format("overlapped is not for {} with scope batch; expected serial", system));
  }
  const bool allowed = plan.delay_weight_gradient == DelayedWeights::None ||
                       plan.delay_weight_gradient == (pairs ? DelayedWeights::All : DelayedWeights::Expert);
  if (!allowed)
    refuse("delay_weight_gradient", fmt::format("{} is not for {} {} scope batch; expected none or {}",
                                                name_in(delayed_weights_names, plan.delay_weight_gradient), system,
                                                pairs ? "with" : "without", pairs ? "all" : "expert"));
}

constexpr std::array limits{SystemRule{
    "megatron_overlap",
    "With scope batch Megatron-LM asks for bf16 or fp16, virtual stages on several stages, at most one layer "
    "of multi-token prediction, and no recompute of moe or full; it then has pair_order alternate and "
    "attention_early, delays all gradients of weights or none, and runs shared experts serially. Without it, "
    "those of experts may be delayed.",
    require_megatron_overlap}};

}  // namespace

std::span<const SystemRule> system_rules() {
  return limits;
}

std::string no_megatron_pairs_because(const Plan& plan, const Experiment& e) {
  if (e.parallelism.pp > 1 && plan.virtual_stages == 1) return "on several stages it asks for virtual stages";
  if (plan.recompute.has(Recompute::Full)) return "it asks for no full recompute";
  if (plan.recompute.has(Recompute::Moe)) return "it asks for no recompute of moe";
  if (e.workload.mtp_layers > 1) return "it takes one layer of multi-token prediction at most";
  if (e.workload.dtype != DType::Bf16 && e.workload.dtype != DType::Fp16) return "it asks for bf16 or fp16";
  return "";
}

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
// Limits that published systems have beyond those of plans (plan_rules.hpp), as their code asserts them. A system names
// its own in its file.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "models/plan/plan.hpp"
#include "models/question/experiment.hpp"

namespace dovetail {

struct SystemRule {
  std::string_view name;
  std::string_view help;  // a sentence or two
  void (*require)(const Plan&, const Experiment&);
};
std::span<const SystemRule> system_rules();

// Why Megatron-LM does not let two micro-batches overlap in this plan, as in "it asks for no full recompute"; empty: it
// does (core/transformer/transformer_config.py at d98e8a6).
std::string no_megatron_pairs_because(const Plan& plan, const Experiment& experiment);

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
// The groups, the workload and the plan that arguments of Megatron-LM describe.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/imports/megatron_settings.hpp"
#include "models/plan/plan.hpp"
#include "models/question/model.hpp"

namespace dovetail::bench {

// Sizes of groups; dp and edp follow from the ranks, where these are known.
struct MegatronGroups {
  int tensor = 1, pipeline = 1, experts = 1, expert_tensor = 1;
  int virtual_stages = 1;
  bool sequence_parallel = false;  // counts where tensor > 1
  std::string layout = {};         // of the pipeline; empty: equal runs
};

// Throws InputError at sizes that contradict each other or the model.
MegatronGroups megatron_groups(const MegatronSettings& settings, const Model& model);

// Its micro-batches are left at 1.
Plan megatron_plan(const MegatronSettings& settings, const Model& model, const MegatronGroups& groups, Unsaid& unsaid);

// All of a workload but for the batch.
nlohmann::ordered_json megatron_workload(const MegatronSettings& settings, const Model& model);

// Switches of the framework file, by name.
std::map<std::string, bool> megatron_options(const MegatronSettings& settings, const Model& model);

}  // namespace dovetail::bench

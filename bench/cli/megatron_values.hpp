// SPDX-License-Identifier: Apache-2.0
// The values that Megatron-LM, DeepSpeed and FSDP have for knobs of a plan, and ours.
#pragma once
#include <string>

namespace dovetail::bench {

// A setting with our values: "plan.recompute=moe_act" is "plan.recompute=activation". Any other setting is itself.
// Throws InputError for what those frameworks can do and is not built here.
std::string in_our_values(const std::string& setting, const std::string& written);

}  // namespace dovetail::bench

// SPDX-License-Identifier: Apache-2.0
// The names that Megatron-LM has for sizes of groups and batches and for what overlaps, and ours.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace dovetail::bench {

// A setting in our names: "tp=8" and "parallelism.tp=8" are "parallelism.mp=8", "vpp=2" is virtual stages with the
// order that goes with them, and "delay_wgrad_compute=true" is "plan.delay_weight_gradient=all". Any other setting is
// itself. Throws InputError for values that are not built, and for an option that is given or not but has a value.
std::vector<std::string> without_megatron_names(const std::string& setting);

// Whether it sets the tensor parallelism of the dense part by one of Megatron-LM's names, which that of experts
// follows.
bool sets_tensor_parallelism(const std::string& setting);

// The setting that does what one of Megatron-LM's options does: "tp=N" for "--tensor-model-parallel-size" and "--tp",
// "delay_wgrad_compute=true" for "--delay-wgrad-compute".
// Empty: it has no such option.
std::string megatron_setting(std::string_view option);

}  // namespace dovetail::bench

// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/megatron_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bench/cli/megatron_values.hpp"
#include "models/base/errors.hpp"

namespace dovetail::bench {
namespace {

struct MegatronName {
  std::string_view name, option, ours;
};

// The names of groups that results print stand among them: users write them as they read them.
constexpr std::array names{
    MegatronName{"tp", "--tensor-model-parallel-size", "parallelism.mp"},
    MegatronName{"mp", "", "parallelism.mp"},
    MegatronName{"pp", "--pipeline-model-parallel-size", "parallelism.pp"},
    MegatronName{"cp", "--context-parallel-size", "parallelism.cp"},
    MegatronName{"ep", "--expert-model-parallel-size", "parallelism.ep"},
    MegatronName{"etp", "--expert-tensor-parallel-size", "parallelism.esp"},
    MegatronName{"esp", "", "parallelism.esp"},
    MegatronName{"dp", "", "parallelism.dp"},
    MegatronName{"edp", "", "parallelism.edp"},
    MegatronName{"vpp", "--num-virtual-stages-per-pipeline-rank", "plan.virtual_stages"},
    MegatronName{"mbs", "--micro-batch-size", "workload.micro_batch"},
    MegatronName{"gbs", "--global-batch-size", "workload.global_batch"},
    MegatronName{"seq", "--seq-length", "workload.sequence"},
    MegatronName{"moe_token_dispatcher_type", "--moe-token-dispatcher-type", "plan.all_to_all"},
    MegatronName{"dispatcher", "", "plan.all_to_all"},
    MegatronName{"recompute_modules", "--recompute-modules", "plan.recompute"},
};

// Options that are given or not, and the value of a knob in both cases.
struct MegatronSwitch {
  std::string_view option, knob, given, not_given;
};
constexpr std::array switches{
    MegatronSwitch{"--overlap-moe-expert-parallel-comm", "plan.scope", "batch", "layer"},
    MegatronSwitch{"--ep-overlap-early-attn-memory-release", "plan.pair_order", "attention_early", "alternate"},
    MegatronSwitch{"--delay-wgrad-compute", "plan.delay_weight_gradient", "all", "none"},
    MegatronSwitch{"--overlap-dispatch-backward-with-experts-wgrad", "plan.delay_weight_gradient", "expert", "none"},
    MegatronSwitch{"--moe-shared-expert-overlap", "plan.shared_experts", "overlapped", "serial"},
};

// "tensor_model_parallel_size" for "--tensor-model-parallel-size".
std::string as_key(std::string_view word) {
  std::string key(word.substr(std::min(word.find_first_not_of('-'), word.size())));
  for (char& c : key) c = c == '-' ? '_' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return key;
}

const MegatronName* find_name(std::string_view key) {
  const std::string asked = as_key(key);
  const auto found = std::ranges::find_if(names, [&](const MegatronName& n) {
    return n.name == asked || (!n.option.empty() && as_key(n.option) == asked);
  });
  return found == names.end() ? nullptr : &*found;
}

const MegatronSwitch* find_switch(std::string_view key) {
  const auto found =
      std::ranges::find_if(switches, [&](const MegatronSwitch& s) { return as_key(s.option) == as_key(key); });
  return found == switches.end() ? nullptr : &*found;
}

std::string in_ours(const MegatronSwitch& theirs, std::string_view value, const std::string& setting) {
  if (value != "true" && value != "false")
    throw InputError(fmt::format("--set {}: \"{}\", expected true or false", setting, value));
  return fmt::format("{}={}", theirs.knob, value == "true" ? theirs.given : theirs.not_given);
}

// The key without the part of an experiment that it may stand in, and the name of that part with its dot.
std::pair<std::string_view, std::string_view> without_part(std::string_view key) {
  for (const std::string_view part : {"parallelism.", "plan."})
    if (key.starts_with(part)) return {key.substr(part.size()), part};
  return {key, ""};
}

// DeepEP, by any of Megatron-LM's names, applies scores at the experts and sends messages as long as what is routed.
std::vector<std::string> with_companions(const std::string& ours, const std::string& written) {
  if (ours == "plan.all_to_all=node_deduplicated" && ours != written)
    return {ours, "plan.scores_at=experts", "plan.pad_messages=false"};
  return {ours};
}

}  // namespace

std::vector<std::string> without_megatron_names(const std::string& setting) {
  const std::size_t equals = setting.find('=');
  if (equals == std::string::npos) return {setting};
  const auto [key, part] = without_part(std::string_view(setting).substr(0, equals));
  if (const MegatronSwitch* const theirs = find_switch(key); theirs != nullptr && theirs->knob.starts_with(part))
    return {in_ours(*theirs, std::string_view(setting).substr(equals + 1), setting)};
  const MegatronName* const found = find_name(key);
  if (found == nullptr || !found->ours.starts_with(part))
    return with_companions(in_our_values(setting, setting), setting);
  const std::string value = setting.substr(equals);
  std::vector<std::string> ours = with_companions(in_our_values(std::string(found->ours) + value, setting), setting);
  if (found->name == "vpp" && value != "=1") ours.emplace_back("plan.pipeline_schedule=interleaved");
  return ours;
}

bool sets_tensor_parallelism(const std::string& setting) {
  const auto [key, part] = without_part(std::string_view(setting).substr(0, setting.find('=')));
  const MegatronName* const found = find_name(key);
  return found != nullptr && found->name == "tp" && found->ours.starts_with(part);
}

std::string megatron_setting(std::string_view option) {
  if (!option.starts_with("--")) return "";
  if (find_switch(option) != nullptr) return as_key(option) + "=true";
  const MegatronName* const found = find_name(option);
  return found == nullptr ? "" : fmt::format("{}=N", found->name);
}

}  // namespace dovetail::bench

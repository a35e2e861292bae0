// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/megatron_values.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "models/base/errors.hpp"
#include "models/files/input_file.hpp"
#include "models/plan/knob_table.hpp"

namespace dovetail::bench {
namespace {

// `ours` is empty where nothing here does the same.
struct MegatronValue {
  std::string_view knob, theirs, ours;
};

constexpr std::array values{
    MegatronValue{"recompute", "core_attn", "attention"},
    MegatronValue{"recompute", "layernorm", "norms"},
    MegatronValue{"recompute", "moe_act", "activation"},
    MegatronValue{"recompute", "mlp", "dense_ffn"},
    MegatronValue{"all_to_all", "alltoall", "linear"},
    MegatronValue{"all_to_all", "deepep", "node_deduplicated"},
    MegatronValue{"all_to_all", "hybridep", "node_deduplicated"},
    MegatronValue{"all_to_all", "flex", "node_deduplicated"},
    MegatronValue{"all_to_all", "allgather", ""},
    MegatronValue{"zero", "2", ""},
    MegatronValue{"zero", "3", ""},
    MegatronValue{"pipeline_schedule", "dualpipev", "dualpipe_v"},
};

// "0 to 1", "gpipe, 1f1b, interleaved"
std::string built(const Knob& knob) {
  if (const auto* count = std::get_if<CountKnob>(&knob.type)) return fmt::format("{} to {}", count->least, count->most);
  std::vector<std::string_view> names;
  for (const KnobValue& value : named_values(knob))
    if (value.built) names.push_back(value.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// "layernorm moe_act", as Megatron-LM takes a list, or "layernorm,moe_act".
std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> list;
  for (std::size_t at = 0; (at = text.find_first_not_of(", ", at)) != std::string::npos;) {
    const std::size_t end = std::min(text.find_first_of(", ", at), text.size());
    list.push_back(text.substr(at, end - at));
    at = end;
  }
  return list;
}

std::string in_ours(std::string_view name, const std::string& value, const std::string& setting) {
  const auto found = std::ranges::find_if(
      values, [&](const MegatronValue& each) { return each.knob == name && each.theirs == value; });
  if (found == values.end()) return value;
  if (found->ours.empty())
    throw InputError(
        fmt::format("--set {}: {} {} is not built yet; built: {}", setting, name, value, built(knob(name))));
  return std::string(found->ours);
}

}  // namespace

std::string in_our_values(const std::string& setting, const std::string& written) {
  constexpr std::string_view part = "plan.";
  const std::size_t equals = std::min(setting.find('='), setting.size());
  if (!setting.starts_with(part) || equals == setting.size()) return setting;
  const std::string key = setting.substr(0, equals), name = key.substr(part.size()), text = setting.substr(equals + 1);
  nlohmann::json value = option_value(text);
  if (!value.is_array() && name == "recompute" && text.find_first_of(", ") != std::string::npos) value = words(text);
  if (!value.is_array()) return fmt::format("{}={}", key, in_ours(name, text, written));
  for (nlohmann::json& each : value)
    if (each.is_string()) each = in_ours(name, each.get<std::string>(), written);
  return value == option_value(text) ? setting : fmt::format("{}={}", key, value.dump());
}

}  // namespace dovetail::bench

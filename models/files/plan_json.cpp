// SPDX-License-Identifier: Apache-2.0
#include "models/files/plan_json.hpp"

#include <nlohmann/json.hpp>

#include "models/base/names.hpp"

namespace dovetail {
namespace {

using Json = nlohmann::ordered_json;

struct ValueJson {
  const Plan& plan;

  Json operator()(const ChoiceKnob& choice) const {
    for (const KnobValue& value : choice.values())
      if (value.value == choice.get(plan)) return value.name;
    throw InternalError("enumerator without a name");
  }
  Json operator()(const SetKnob& set) const {
    auto list = Json::array();
    for (const KnobValue& value : set.values())
      if (set.has(plan, value)) list.push_back(value.name);
    if (list.size() > 1) return list;
    return list.empty() ? Json(no_values) : list.front();
  }
  Json operator()(const SlicesKnob& slices) const {
    auto list = Json::array();
    for (const GradientSlice& slice : plan.*slices.member)
      list.push_back(
          {{"window", name_in(window_names, slice.window)}, {"layer", slice.layer}, {"elements", slice.elements}});
    return list;
  }
  Json operator()(const ProgramKnob& program) const { return (plan.*program.member).lines(); }
  template <class Type>
  Json operator()(const Type& type) const {
    return plan.*type.member;
  }
};

}  // namespace

Json value_json(const Knob& knob, const Plan& plan) {
  return std::visit(ValueJson{plan}, knob.type);
}

std::string value_text(const Knob& knob, const Plan& plan) {
  const Json value = value_json(knob, plan);
  return value.is_string() ? value.get<std::string>() : value.dump();
}

Json to_json(const Plan& plan, std::span<const Knob> table) {
  Json json;
  for (const Knob& knob : table) json[std::string(knob.name)] = value_json(knob, plan);
  return json;
}

Json plan_file_json(const Plan& plan, const Parallelism& groups) {
  Json json = to_json(plan);
  if (groups.sequence_parallel) json[sequence_parallel_key] = *groups.sequence_parallel;
  return json;
}

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
#include "tests/support/knob_documents.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "models/base/errors.hpp"
#include "models/files/plan_json.hpp"
#include "tests/support/compact_json.hpp"

namespace dovetail::test {
namespace {

using Json = nlohmann::ordered_json;

Json whole_number(std::int64_t least, std::int64_t most) {
  return {{"type", "integer"}, {"minimum", least}, {"maximum", most}};
}

Json names_in(const auto& table) {
  Json list = Json::array();
  for (const auto& [name, value] : table) list.push_back(name);
  return list;
}

Json names(std::span<const KnobValue> values) {
  Json list = Json::array();
  for (const KnobValue& value : values) list.push_back(value.name);
  return list;
}

struct TypeSchema {
  Json operator()(const ChoiceKnob& choice) const { return {{"enum", names(choice.values())}}; }
  Json operator()(const SetKnob& set) const {
    const Json each{{"enum", names(set.values())}};
    Json one = names(set.values());
    one.insert(one.begin(), no_values);
    return {{"anyOf", {{{"enum", one}}, {{"type", "array"}, {"items", each}}}}};
  }
  Json operator()(const FlagKnob&) const { return {{"type", "boolean"}}; }
  Json operator()(const CountKnob& count) const { return whole_number(count.least, count.most); }
  Json operator()(const BytesKnob&) const { return {{"type", "integer"}, {"minimum", 1}}; }
  Json operator()(const CountsKnob& list) const {
    return {{"type", "array"}, {"items", whole_number(list.least, list.most)}};
  }
  Json operator()(const ProgramKnob&) const {
    const Json line{{"type", "string"}};
    return {{"anyOf", {line, {{"type", "array"}, {"items", line}}}}};
  }
  Json operator()(const SlicesKnob&) const {
    Json layer = whole_number(0, 10'000), elements{{"type", "integer"}, {"minimum", 1}};
    layer["description"] = "Layer of the window, from 0; for tail the first layer of the pipeline stage. Default: 0.";
    elements["description"] = "Size of the slice (elements).";
    const Json window{{"enum", names_in(window_names)},
                      {"description", "Beside a layer's MoE part, beside its attention, or after the last layer."}};
    return {{"type", "array"},
            {"items",
             {{"type", "object"},
              {"additionalProperties", false},
              {"required", {"window", "elements"}},
              {"properties", {{"window", window}, {"layer", layer}, {"elements", elements}}}}}};
  }
};

std::string default_text(const Knob& knob) {
  const Json value = value_json(knob, Plan{});
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string meaning(const Knob& knob, std::string_view quote) {
  std::string text(knob.help);
  if (!knob.built) text += " Other values than the default are not built yet.";
  for (const KnobValue& value : named_values(knob))
    text += fmt::format(" {}{}{}{}: {}", quote, value.name, quote, value.built ? "" : " (not built yet)", value.help);
  return text;
}

std::string listed(std::span<const KnobValue> values) {
  std::string text;
  for (const KnobValue& value : values) text += fmt::format("{}`{}`", text.empty() ? "" : ", ", value.name);
  return text;
}

struct ValuesText {
  std::string usual;

  std::string operator()(const ChoiceKnob& choice) const { return listed(choice.values()); }
  std::string operator()(const SetKnob& set) const {
    return fmt::format("`{}`, one of the following or a list of them: {}", no_values, listed(set.values()));
  }
  std::string operator()(const FlagKnob&) const { return fmt::format("true or false [{}]", usual); }
  std::string operator()(const CountKnob& count) const {
    return fmt::format("{} to {} [{}]", count.least, count.most, usual);
  }
  std::string operator()(const BytesKnob&) const { return fmt::format("bytes [{}]", usual); }
  std::string operator()(const CountsKnob& list) const {
    return fmt::format("list of numbers, {} to {} [empty]", list.least, list.most);
  }
  std::string operator()(const ProgramKnob&) const { return "list of lines, or the path of a file [empty]"; }
  std::string operator()(const SlicesKnob&) const {
    return "list of slices [empty]: `window` (`moe`, `dense` or `tail`), `layer` of the window (`tail`: the first "
           "layer "
           "of its pipeline stage), `elements`";
  }
};

std::string knob_lists(std::span<const Knob> table, std::span<const PlanRule> rules) {
  std::string text = "| knob | values | class | searched | meaning |\n|---|---|---|---|---|\n";
  for (const Knob& knob : table)
    text +=
        fmt::format("| `{}` | {} | {} | {} | {} |\n", knob.name, std::visit(ValuesText{default_text(knob)}, knob.type),
                    name_in(knob_class_names, static_cast<KnobClass>(knob.group)),
                    knob.search == KnobSearch::Kept ? "no" : "yes", meaning(knob, "`"));
  text += "\n| rule between knobs | refuses | meaning |\n|---|---|---|\n";
  for (const PlanRule& rule : rules) text += fmt::format("| {} | {} | {} |\n", rule.name, rule.knobs, rule.help);
  return text;
}

}  // namespace

std::string plan_schema(std::span<const Knob> table) {
  Json properties{{"$schema", {{"type", "string"}, {"description", "For editors; not read."}}}};
  Json references = Json::object(), required = Json::array();
  for (const Knob& knob : table) {
    const std::string name(knob.name);
    properties[name] = std::visit(TypeSchema{}, knob.type);
    properties[name]["description"] = fmt::format("{} Default: {}.", meaning(knob, ""), default_text(knob));
    references[name] = {{"$ref", "#/properties/" + name}};
    required.push_back(name);
  }
  const Json complete{{"type", "object"},
                      {"description", "A plan with all its knobs, as in results."},
                      {"additionalProperties", false},
                      {"required", required},
                      {"properties", references}};
  const Json schema{{"$schema", "http://json-schema.org/draft-07/schema#"},
                    {"title", "Plan"},
                    {"description", "One point of the plan space. Knobs that are left out keep their defaults."},
                    {"type", "object"},
                    {"additionalProperties", false},
                    {"properties", properties},
                    {"definitions", {{"complete", complete}}}};
  return compact_json(schema) + "\n";
}

std::string with_knob_lists(const std::string& readme, std::span<const Knob> table, std::span<const PlanRule> rules) {
  const std::string begin = "<!-- made from models/plan/knob_table.cpp by a test -->\n", end = "<!-- end -->\n";
  const std::size_t first = readme.find(begin), last = readme.find(end, first);
  check(first != std::string::npos && last != std::string::npos, "data/README.md has lost the marks of its knobs");
  return readme.substr(0, first + begin.size()) + knob_lists(table, rules) + readme.substr(last);
}

}  // namespace dovetail::test

// SPDX-License-Identifier: Apache-2.0
#include "models/base/json/schema_walk.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <regex>

#include "models/base/errors.hpp"
#include "models/base/json/json_text.hpp"
#include "models/base/json/nearest.hpp"

namespace dovetail {
namespace {

using nlohmann::json;
using Kind = SchemaProblem::Kind;

constexpr std::size_t longest_match = 1000;  // std::regex recurses once per character

bool matches(const std::string& text, const std::string& pattern) {
  return text.size() <= longest_match && std::regex_search(text, std::regex(pattern, std::regex::ECMAScript));
}

const json* find(const json& object, std::string_view key) {
  const auto it = object.find(key);
  return it == object.end() ? nullptr : &*it;
}

bool has_type(const json& value, const std::string& type) {
  return (type == "object" && value.is_object()) || (type == "array" && value.is_array()) ||
         (type == "string" && value.is_string()) || (type == "number" && value.is_number()) ||
         (type == "integer" && value.is_number_integer()) || (type == "boolean" && value.is_boolean()) ||
         (type == "null" && value.is_null());
}

std::string type_in_words(const std::string& type) {
  if (type == "integer") return "a whole number";
  if (type == "boolean") return "true or false";
  if (type == "null") return type;
  return (type == "object" || type == "array" ? "an " : "a ") + type;
}

std::vector<std::string> strings(const json& one_or_many) {
  if (one_or_many.is_string()) return {one_or_many.get<std::string>()};
  std::vector<std::string> result;
  for (const json& each : one_or_many)
    if (each.is_string()) result.push_back(each.get<std::string>());
  return result;
}

// "a string such as "12.5 us"", "a number or null", `"a", "b" or "c"`.
std::string expectation(const json& schema) {
  std::vector<std::string> words;
  if (const json* constant = find(schema, "const")) words.push_back(constant->dump());
  if (const json* choices = find(schema, "enum"))
    for (const json& choice : *choices) words.push_back(choice.dump());
  if (const json* type = find(schema, "type"); type && words.empty())
    for (const std::string& each : strings(*type)) words.push_back(type_in_words(each));
  if (words.empty()) return "";
  const json* examples = find(schema, "examples");
  return join_or(words) + (examples && !examples->empty() ? " such as " + examples->front().dump() : "");
}

class Walk {
 public:
  Walk(const json& root, std::size_t limit) : root_(root), limit_(limit) {}

  void visit(const json& value, const json& unresolved, const std::string& pointer) {
    if (problems_.size() >= limit_) return;
    const json& schema = resolve(unresolved);
    if (schema.is_boolean()) {
      if (!schema.get<bool>()) report(Kind::Other, pointer, "nothing is allowed here");
      return;
    }
    if (!check_type(value, schema, pointer)) return;
    if (!check_choices(value, schema, pointer)) return;
    if (value.is_number()) check_number(value, schema, pointer);
    if (value.is_string()) check_string(value.get_ref<const std::string&>(), schema, pointer);
    if (value.is_array()) check_array(value, schema, pointer);
    if (value.is_object()) check_object(value, schema, pointer);
    check_combinations(value, schema, pointer);
  }

  std::vector<SchemaProblem> take() { return std::move(problems_); }

 private:
  void report(Kind kind, const std::string& pointer, std::string message, std::string expected = "") {
    if (problems_.size() < limit_) problems_.push_back({kind, pointer, std::move(message), std::move(expected)});
  }

  const json& resolve(const json& schema) const {
    const json* current = &schema;
    for (int hops = 0; current->is_object() && current->contains("$ref"); ++hops) {
      const std::string reference = current->at("$ref").get<std::string>();
      check(hops < 32, "schema reference without end");
      check(reference.starts_with('#'), "schema reference to another file");
      current = &root_.at(json::json_pointer(reference.substr(1)));
    }
    return *current;
  }

  bool check_type(const json& value, const json& schema, const std::string& pointer) {
    const json* type = find(schema, "type");
    if (!type) return true;
    for (const std::string& each : strings(*type))
      if (has_type(value, each)) return true;
    const std::string expected = expectation(schema);
    report(Kind::WrongType, pointer, fmt::format("expected {}, got {}", expected, describe(value)), expected);
    return false;
  }

  bool check_choices(const json& value, const json& schema, const std::string& pointer) {
    const json* constant = find(schema, "const");
    const json* choices = find(schema, "enum");
    const bool wrong_constant = constant && *constant != value;
    const bool wrong_choice = choices && std::find(choices->begin(), choices->end(), value) == choices->end();
    if (!wrong_constant && !wrong_choice) return true;
    const std::string expected = expectation(schema);
    std::string hint;
    if (value.is_string() && choices) hint = did_you_mean(value.get_ref<const std::string&>(), strings(*choices));
    report(Kind::WrongConstant, pointer, fmt::format("expected {}, got {}{}", expected, describe(value), hint),
           expected);
    return false;
  }

  void check_number(const json& value, const json& schema, const std::string& pointer) {
    struct Bound {
      const char* keyword;
      std::string_view words;
      bool (*holds)(double, double);
    };
    constexpr std::array bounds{
        Bound{"minimum", "at least", [](double a, double b) { return a >= b; }},
        Bound{"exclusiveMinimum", "more than", [](double a, double b) { return a > b; }},
        Bound{"maximum", "at most", [](double a, double b) { return a <= b; }},
        Bound{"exclusiveMaximum", "less than", [](double a, double b) { return a < b; }},
    };
    for (const Bound& bound : bounds) {
      const json* limit = find(schema, bound.keyword);
      if (!limit || bound.holds(value.get<double>(), limit->get<double>())) continue;
      report(Kind::Other, pointer, fmt::format("expected {} {}, got {}", bound.words, limit->dump(), value.dump()));
      return;
    }
  }

  void check_string(const std::string& text, const json& schema, const std::string& pointer) {
    const json* pattern = find(schema, "pattern");
    const json* shortest = find(schema, "minLength");
    if (shortest && *shortest == 1 && text.empty()) return report(Kind::Other, pointer, "expected text, got \"\"");
    if (!pattern || matches(text, pattern->get<std::string>())) return;
    const bool example = schema.contains("examples");
    const std::string expected = example ? expectation(schema) : "text that matches " + pattern->get<std::string>();
    report(Kind::Other, pointer, fmt::format("expected {}, got {}", expected, in_quotes(text)));
  }

  void check_array(const json& value, const json& schema, const std::string& pointer) {
    const json* fewest = find(schema, "minItems");
    const json* most = find(schema, "maxItems");
    if (fewest && value.size() < fewest->get<std::size_t>())
      report(Kind::Other, pointer, fmt::format("expected at least {} elements, got {}", fewest->dump(), value.size()));
    if (most && value.size() > most->get<std::size_t>())
      report(Kind::Other, pointer, fmt::format("expected at most {} elements, got {}", most->dump(), value.size()));
    const json* items = find(schema, "items");
    if (!items) return;
    const std::size_t count = items->is_array() ? std::min(items->size(), value.size()) : value.size();
    for (std::size_t i = 0; i < count && problems_.size() < limit_; ++i)
      visit(value[i], items->is_array() ? (*items)[i] : *items, child_pointer(pointer, i));
  }

  void check_object(const json& value, const json& schema, const std::string& pointer) {
    static const json none = json::object();
    const json* properties = find(schema, "properties");
    if (!properties) properties = &none;
    for (const auto& [key, child] : value.items())
      check_member(key, child, *properties, schema, child_pointer(pointer, key));
    const json* required = find(schema, "required");
    if (!required) return;
    for (const std::string& key : strings(*required)) {
      if (value.contains(key)) continue;
      const json* property = find(*properties, key);
      const std::string expected = property && resolve(*property).is_object() ? expectation(resolve(*property)) : "";
      report(Kind::Other, pointer,
             fmt::format("missing key {}{}", in_quotes(key), expected.empty() ? "" : ", expected " + expected));
    }
  }

  void check_member(const std::string& key, const json& child, const json& properties, const json& schema,
                    const std::string& pointer) {
    const json* property = find(properties, key);
    if (property) visit(child, *property, pointer);
    bool known = property != nullptr;
    if (const json* patterns = find(schema, "patternProperties")) {
      for (const auto& [pattern, each] : patterns->items()) {
        if (!matches(key, pattern)) continue;
        visit(child, each, pointer);
        known = true;
      }
    }
    const json* others = find(schema, "additionalProperties");
    if (known || !others) return;
    if (*others != false) return visit(child, *others, pointer);
    std::vector<std::string> names;
    for (const auto& [name, ignored] : properties.items()) names.push_back(name);
    std::string hint = did_you_mean(key, names);
    if (hint.empty() && !names.empty() && names.size() <= 12) hint = ", expected " + join_or(names);
    report(Kind::UnknownKey, pointer, fmt::format("unknown key {}{}", in_quotes(key), hint));
  }

  void check_combinations(const json& value, const json& schema, const std::string& pointer) {
    if (const json* all = find(schema, "allOf"))
      for (const json& each : *all) visit(value, each, pointer);
    for (const char* keyword : {"anyOf", "oneOf"})
      if (const json* branches = find(schema, keyword)) check_branches(value, *branches, pointer);
  }

  // Reports the branch the user probably meant: the one whose type and constants fit.
  void check_branches(const json& value, const json& branches, const std::string& pointer) {
    std::vector<SchemaProblem> misfits, meant;
    for (const json& branch : branches) {
      Walk walk(root_, limit_);
      walk.visit(value, branch, pointer);
      std::vector<SchemaProblem> found = walk.take();
      if (found.empty()) return;
      const auto misfit = std::find_if(found.begin(), found.end(), [&](const SchemaProblem& problem) {
        return problem.kind == Kind::WrongConstant || (problem.kind == Kind::WrongType && problem.pointer == pointer);
      });
      if (misfit != found.end())
        misfits.push_back(*misfit);
      else if (meant.empty() || found.size() < meant.size())
        meant = std::move(found);
    }
    if (!meant.empty()) {
      for (SchemaProblem& problem : meant) report(problem.kind, problem.pointer, problem.message, problem.expected);
      return;
    }
    if (misfits.empty()) return;
    report_misfits(value, misfits, pointer);
  }

  void report_misfits(const json& value, const std::vector<SchemaProblem>& misfits, const std::string& pointer) {
    const std::string& where = misfits.front().pointer;
    std::vector<std::string> expected;
    for (const SchemaProblem& misfit : misfits)
      if (misfit.pointer == where && std::find(expected.begin(), expected.end(), misfit.expected) == expected.end())
        expected.push_back(misfit.expected);
    const json& wrong = value.at(json::json_pointer(where.substr(pointer.size())));
    const std::string message = fmt::format("expected {}, got {}", join_or(expected), describe(wrong));
    report(misfits.front().kind, where, message, join_or(expected));
  }

  const json& root_;
  std::size_t limit_;
  std::vector<SchemaProblem> problems_;
};

}  // namespace

std::vector<SchemaProblem> find_schema_problems(const json& value, const json& schema, std::size_t limit) {
  Walk walk(schema, limit);
  walk.visit(value, schema, "");
  return walk.take();
}

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
#include "models/base/json/json_schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "models/base/json/json_text.hpp"
#include "models/base/json/schema_walk.hpp"

namespace dovetail {
namespace {

using nlohmann::json;
using Kind = SchemaProblem::Kind;

constexpr std::size_t problem_limit = 16;  // enough to choose from, few enough to locate each in a large file

[[noreturn]] void report_best(const JsonFile& file, const std::vector<SchemaProblem>& problems) {
  using Rank = std::tuple<bool, std::ptrdiff_t, int, int>;  // the least wins
  std::vector<Rank> ranks;
  for (const SchemaProblem& problem : problems) {
    const Location where = file.locate(problem.pointer);
    const std::ptrdiff_t depth = std::count(problem.pointer.begin(), problem.pointer.end(), '/');
    ranks.emplace_back(problem.kind != Kind::UnknownKey, -depth, where.line, where.column);
  }
  const auto least = std::min_element(ranks.begin(), ranks.end()) - ranks.begin();
  const SchemaProblem& best = problems[static_cast<std::size_t>(least)];
  const bool at_key = best.kind == Kind::UnknownKey;
  throw InputError(at_key ? file.locate_key(best.pointer) : file.locate(best.pointer), best.message);
}

// The validator gives a path as "<root>", "[key]", "[0]".
std::string pointer_of(const std::vector<std::string>& context) {
  std::string pointer;
  for (const std::string& part : context) {
    std::string_view step = part;
    if (!step.starts_with('[') || !step.ends_with(']')) continue;
    step = step.substr(1, step.size() - 2);
    if (step.size() >= 2 && step.starts_with('"') && step.ends_with('"')) step = step.substr(1, step.size() - 2);
    pointer = child_pointer(pointer, step);
  }
  return pointer;
}

}  // namespace

struct JsonSchema::Compiled {
  json schema;                              // for the walk, with messages for people
  std::optional<valijson::Schema> in_full;  // for the keywords that the walk does not know; made when first asked

  void validate_in_full(const JsonFile& file) {
    if (!in_full) {
      in_full.emplace();
      valijson::adapters::NlohmannJsonAdapter adapter(schema);
      valijson::SchemaParser(valijson::SchemaParser::kDraft7).populateSchema(adapter, *in_full);
    }
    valijson::ValidationResults results;
    if (valijson::Validator().validate(*in_full, valijson::adapters::NlohmannJsonAdapter(file.root()), &results))
      return;
    // The message has the validator's own words.
    valijson::ValidationResults::Error deepest, error;
    while (results.popError(error))
      if (deepest.description.empty() || error.context.size() > deepest.context.size()) deepest = error;
    throw InputError(file.locate(pointer_of(deepest.context)), "does not fit the schema: " + deepest.description);
  }
};

JsonSchema::JsonSchema(json schema) : compiled_(new Compiled{std::move(schema), std::nullopt}) {}
JsonSchema::JsonSchema(JsonSchema&&) noexcept = default;
JsonSchema::~JsonSchema() = default;

void JsonSchema::validate(const JsonFile& file) const {
  try {
    const std::vector<SchemaProblem> problems = find_schema_problems(file.root(), compiled_->schema, problem_limit);
    if (!problems.empty()) report_best(file, problems);
    compiled_->validate_in_full(file);
  } catch (const InputError&) {
    throw;
  } catch (const std::exception& error) {
    throw InternalError(fmt::format("broken schema for {}: {}", file.name(), error.what()));
  }
}

void validate(const JsonFile& file, const json& schema) {
  JsonSchema(schema).validate(file);
}

}  // namespace dovetail

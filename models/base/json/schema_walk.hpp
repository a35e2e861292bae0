// SPDX-License-Identifier: Apache-2.0
// Finds what in a value breaks a schema, with messages for people. It knows the keywords our schemas use; whether the
// schema holds in full is for json_schema.cpp to ask the real validator.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail {

struct SchemaProblem {
  enum class Kind { UnknownKey, WrongType, WrongConstant, Other };
  Kind kind = Kind::Other;
  std::string pointer;   // of the value, or of the unknown key
  std::string message;   // complete
  std::string expected;  // "a number"; empty unless WrongType or WrongConstant
};

// At most `limit` problems, outer before inner along one branch, keys in alphabetical order.
// Knows $ref, type, properties, additionalProperties, patternProperties, required, enum, const, items, minItems,
// maxItems, minimum, maximum, exclusiveMinimum, exclusiveMaximum, minLength, pattern, allOf, anyOf and oneOf.
std::vector<SchemaProblem> find_schema_problems(const nlohmann::json& value, const nlohmann::json& schema,
                                                std::size_t limit);

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
// Checks a JsonFile against a JSON Schema (draft 7) and reports the one most useful problem in plain words.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "models/base/json/json_file.hpp"

namespace dovetail {

// A schema made ready for many files.
class JsonSchema {
 public:
  explicit JsonSchema(nlohmann::json schema);
  JsonSchema(JsonSchema&&) noexcept;
  ~JsonSchema();

  // Throws InputError at the problem's place: unknown keys before everything else, then the deepest, then the first in
  // the file. References are local ("#/definitions/..."). `examples` beside a `type` or `pattern` are shown as what was
  // expected. A schema that is itself broken throws InternalError.
  void validate(const JsonFile& file) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

// The same for one file.
void validate(const JsonFile& file, const nlohmann::json& schema);

}  // namespace dovetail

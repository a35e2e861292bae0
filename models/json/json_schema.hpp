// Checks a JsonFile against a JSON Schema (draft 7) and reports the one most useful problem in plain words.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "models/json/json_file.hpp"

namespace dovetail {

// Throws InputError at the problem's place: unknown keys before everything else, then the deepest, then the first in
// the file. References are local ("#/definitions/..."). `examples` beside a `type` or `pattern` are shown as what was
// expected. A schema that is itself broken throws InternalError.
void validate(const JsonFile& file, const nlohmann::json& schema);

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
// The formats of files that one command saves and another reads: a kind, and the version of that kind.
#pragma once
#include <span>
#include <string_view>

#include "models/base/json/json_reader.hpp"

namespace dovetail {

struct SavedFormat {
  std::string_view kind, version;
};

// Throws InputError at "kind" or "schema_version" unless the file is of one of these formats.
void require_format(const JsonReader& file, std::span<const SavedFormat> known);

}  // namespace dovetail

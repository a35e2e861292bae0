// SPDX-License-Identifier: Apache-2.0
#include "models/files/saved_format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "models/base/json/json_text.hpp"

namespace dovetail {

void require_format(const JsonReader& file, std::span<const SavedFormat> known) {
  const std::string version = file.string("schema_version"), kind = file.string("kind");
  const auto format = std::ranges::find(known, kind, &SavedFormat::kind);
  if (format == known.end()) {
    std::vector<std::string> kinds;
    for (const SavedFormat& each : known) kinds.emplace_back(each.kind);
    file.fail("kind", fmt::format("a file of kind {}, expected {}", in_quotes(kind), join_or(kinds)));
  }
  if (version != format->version)
    file.fail("schema_version",
              fmt::format("{}, expected {}: another version of dovetail made this", version, format->version));
}

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
// Finds the place of a value in a JSON text by walking the text again when a message needs it, so that files without
// errors pay nothing. It is no parser: it trusts the part of the text that it walks over.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace dovetail {

// Both count from 1; columns count characters (UTF-8), and lines end with LF or CRLF.
struct LineColumn {
  int line = 1, column = 1;
};
LineColumn line_column(std::string_view text, std::size_t offset);

enum class JsonPart { Key, Value };

// Offset of the value at a pointer or of the key before it (array elements have none: their value then).
// `occurrence` 2 asks for the second of two equal keys in the innermost object. None where there is no such value.
std::optional<std::size_t> find_json(std::string_view text, std::string_view pointer, JsonPart part,
                                     int occurrence = 1);

// First offset from `offset` on that is neither white space nor comment.
std::size_t skip_json_space(std::string_view text, std::size_t offset);

}  // namespace dovetail

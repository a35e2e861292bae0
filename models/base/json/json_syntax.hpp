// SPDX-License-Identifier: Apache-2.0
// Turns a syntax error of the JSON parser into words for the person who wrote the file.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace dovetail {

struct SyntaxError {
  std::size_t offset = 0;  // of the offending character or word
  std::string message;     // "what is wrong, what was expected"
};

// `read` is how many bytes the parser had consumed, `reason` its own message, `container` the pointer of the innermost
// object or array still open.
SyntaxError explain_syntax_error(std::string_view text, std::size_t read, std::string_view reason,
                                 std::string_view container);

}  // namespace dovetail

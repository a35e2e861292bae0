// SPDX-License-Identifier: Apache-2.0
// Text of others on terminals and in files for spreadsheets.
#pragma once
#include <string>
#include <string_view>

namespace dovetail {

// Replaces every control character, which a terminal would obey, by `by`.
std::string plain_text(std::string_view text, char by = ' ');

}  // namespace dovetail

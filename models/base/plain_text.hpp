// Text of others on terminals and in files for spreadsheets.
#pragma once
#include <string>
#include <string_view>

namespace dovetail {

// With `by` in place of every control character, which a terminal would obey.
std::string plain_text(std::string_view text, char by = ' ');

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
// Small text helpers for messages about JSON: quoting, naming a value, pointers.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail {

// The text in double quotes on one line: control characters escaped, invalid UTF-8 replaced, shortened to about 60
// bytes.
std::string in_quotes(std::string_view text);

// A value as it reads in "got ...": `the string "x"`, `the number 3`, `an object`, `an empty array`, `null`.
std::string describe(const nlohmann::json& value);

// "a, b or c"; empty for no words.
std::string join_or(const std::vector<std::string>& words);

// JSON pointers (RFC 6901): one step down, and the unescaped steps of a whole pointer.
std::string child_pointer(std::string_view pointer, std::string_view key);
std::string child_pointer(std::string_view pointer, std::size_t index);
std::vector<std::string> pointer_steps(std::string_view pointer);

}  // namespace dovetail

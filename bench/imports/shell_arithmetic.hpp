// SPDX-License-Identifier: Apache-2.0
// The whole-number arithmetic of $((...)) in a shell.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace dovetail::bench {

// The text of a variable; none: it is not known.
using VariableText = std::function<std::optional<std::string>(std::string_view name)>;

// The value of an expression of + - * / % ( ), numbers and variables; none where it has more, a variable is not known,
// a divisor is zero, or a value leaves 64 bits.
std::optional<std::int64_t> arithmetic(std::string_view expression, const VariableText& variable);

}  // namespace dovetail::bench

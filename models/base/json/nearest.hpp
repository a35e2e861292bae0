// SPDX-License-Identifier: Apache-2.0
// "Did you mean": the candidate nearest to a mistyped key, command or name.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail {

// The candidate fewest edits (insert, delete, replace, swap neighbours) away, ignoring case and '-' against '_'; none
// when even that is more than a third of the word away. A beginning of three letters or more counts as near,
// and so does a part between '-' or '_'.
// The first of equally near candidates wins.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);

// `, did you mean "nodes"?` to append to a message, or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace dovetail

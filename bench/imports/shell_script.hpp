// SPDX-License-Identifier: Apache-2.0
// A shell script as far as it can be followed without running anything: its variables and its command lines.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "bench/imports/given_run.hpp"
#include "bench/imports/shell_words.hpp"

namespace dovetail::bench {

struct ShellScript {
  std::vector<std::vector<PlacedWord>> commands;  // in their order, with variables put in
  std::vector<std::vector<PlacedWord>> lists;     // what variables hold at the end, those of the script alone
  Variables variables;                            // those whose values are known, at the end
  std::vector<std::string> notes;                 // conditions that are not known, and what was taken for them
};

// Follows assignments, lists and conditions that compare known texts. Under any other condition a value counts that
// nothing else sets, and what is added to a list is in it; a note says so. Throws InputError at the place of a quote or
// bracket that is not closed.
ShellScript follow_script(const std::string& text, const std::string& name, const Variables& variables);

}  // namespace dovetail::bench

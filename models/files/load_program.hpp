// SPDX-License-Identifier: Apache-2.0
// Reads a program that a plan lists.
#pragma once
#include <string_view>

#include "models/base/json/json_reader.hpp"
#include "models/plan/listed_program.hpp"

namespace dovetail {

// From a list of lines, one for each pipeline rank, or from the path of a file of such lines, which is relative to the
// file in which it stands. Blank lines of the file say nothing, as those that begin with #. Throws InputError at the
// place of the first word that is wrong, or, where the program as a whole is, at that of the value or about the file.
ListedProgram read_program(const JsonReader& object, std::string_view key);

}  // namespace dovetail

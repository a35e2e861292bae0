// SPDX-License-Identifier: Apache-2.0
// Every kind of input file: valid ones to start from, and the use that the command line makes of one.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "tests/fuzz/mutate.hpp"

namespace dovetail::test {

struct FuzzTarget {
  std::string name, file;          // file: what the text is called in the working folder
  std::vector<std::string> seeds;  // valid texts
  std::function<void(Dice&)> use;  // of the file in the working folder
  int weight = 4;                  // how often it is taken
};

// Writes the files that stand beside every mutated one into the working folder.
std::vector<FuzzTarget> fuzz_targets();

// The last command line that a target used, for messages; empty where it used none since the last call.
std::string last_command();

}  // namespace dovetail::test

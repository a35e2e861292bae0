// SPDX-License-Identifier: Apache-2.0
// How the command line is read: CLI11's own complaints become one line that says what to write instead.
#pragma once
#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace dovetail::bench {

void prepare_usage(CLI::App& app);  // of the program and of each command: layout of --help, leftovers kept for parse()

enum class Parsed { Command, Answered };  // Answered: --help or --version, which is printed

// `arguments` with the program's name. Throws InputError for wrong usage.
Parsed parse(CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace dovetail::bench

// SPDX-License-Identifier: Apache-2.0
// The commands of this program, one file each in commands/.
#pragma once
#include <CLI/App.hpp>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail::bench {

// Exit codes of the program.
enum class Exit { Ok = 0, Failure = 1, BadInput = 2, NoPlan = 3, MissingDevice = 4, Threshold = 5, NotValid = 6 };

// The work of a command once its options are read.
using Action = std::function<Exit(const std::vector<std::string>& command_line)>;

struct Command {
  std::string_view name, summary;
  Action (*declare)(CLI::App& app);  // adds the options and examples to `app`
};
std::span<const Command> commands();

Action declare_compare(CLI::App& app);
Action declare_tune(CLI::App& app);
Action declare_plan(CLI::App& app);
Action declare_simulate(CLI::App& app);
Action declare_run(CLI::App& app);
Action declare_validate(CLI::App& app);
Action declare_reproduce(CLI::App& app);
Action declare_sweep(CLI::App& app);
Action declare_calibrate(CLI::App& app);
Action declare_import(CLI::App& app);
Action declare_explain(CLI::App& app);
Action declare_doctor(CLI::App& app);

}  // namespace dovetail::bench

// SPDX-License-Identifier: Apache-2.0
// The options that commands share: declared, explained and checked in one place.
#pragma once
#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/cli/terminal.hpp"
#include "models/files/load.hpp"
#include "reports/flags/frameworks.hpp"

namespace dovetail::bench {

enum class Format { Table, Json, Csv };

struct Options {
  ExperimentRequest request;
  std::vector<std::string> systems, plans;  // names or files
  std::string backend = "analytic", platform;
  int seed = 0;
  int draws = 200;  // of unsure costs; 0: results say nothing of how sure they are
  std::optional<Format> format;
  bool explain = false;                         // the best result in words
  std::optional<reports::Framework> framework;  // whose arguments for the best plan are printed
  std::string output, html, trace;              // files; empty: none; "-": standard output
  bool quiet = false, verbose = false;
  Colour colour = Colour::Auto;
  double timeout = 0;  // seconds; 0: none

  Talk talk() const { return quiet ? Talk::Quiet : verbose ? Talk::Verbose : Talk::Normal; }
};

// Takes "key=value" into the request as --set does: Megatron-LM's names become ours, and the request remembers how it
// was written.
void take_setting(const std::string& written, ExperimentRequest& request);

// How many systems and plans a command takes.
enum class Systems { One, Many };

void add_experiment_options(CLI::App& app, Options& options);
void add_system_options(CLI::App& app, Options& options, Systems systems);
void add_draws_option(CLI::App& app, Options& options);
void add_explain_option(CLI::App& app, Options& options);
void add_export_option(CLI::App& app, Options& options);
void add_output_options(CLI::App& app, Options& options);                           // those and --trace
void add_result_options(CLI::App& app, Options& options, const std::string& page);  // --format -o --html
void add_general_options(CLI::App& app, Options& options);                          // -q -v --color --timeout

// Throws InputError for options that contradict each other.
void check_options(const Options& options);

}  // namespace dovetail::bench

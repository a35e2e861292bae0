// SPDX-License-Identifier: Apache-2.0
// The options that say what computes the times of a schedule.
#pragma once
#include <CLI/App.hpp>

#include "bench/cli/options.hpp"

namespace dovetail::bench {

void add_backend_option(CLI::App& app, Options& options);

}  // namespace dovetail::bench

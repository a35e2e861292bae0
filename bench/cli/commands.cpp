// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/commands.hpp"

#include <array>

namespace dovetail::bench {
namespace {

constexpr std::array table{
    Command{"tune", "Find the fastest layout and plan to train a model on a cluster", declare_tune},
    Command{"compare", "Compare systems or plans on one experiment", declare_compare},
    Command{"plan", "Choose a plan and say why", declare_plan},
    Command{"simulate", "Predict one system or plan in detail", declare_simulate},
    Command{"explain", "Say why the best plan of a saved result is the best, and what limits it", declare_explain},
    Command{"run", "Execute a scaled-down plan on this machine, and compare measured with predicted times",
            declare_run},
    Command{"validate", "Measure how far predictions are off, on sizes that no cost was fitted to", declare_validate},
    Command{"reproduce", "Recompute published tables, measured steps and operators, beside the numbers of others",
            declare_reproduce},
    Command{"sweep", "Simulate systems over a grid of clusters, models and settings", declare_sweep},
    Command{"calibrate", "Measure what operations cost on this machine, or read it from nccl-tests", declare_calibrate},
    Command{"import", "Make a model or an experiment from files of checkpoints and trainings", declare_import},
    Command{"doctor", "List what this build and this machine can do, and what is missing", declare_doctor},
};

}  // namespace

std::span<const Command> commands() {
  return table;
}

}  // namespace dovetail::bench

// SPDX-License-Identifier: Apache-2.0
// Times of a program's own gate and experts (models/extend) on this machine, and the lines through them: the profiling
// of FSMoE (section 4.1), for modules of any kind. An experiment with them is planned by what the modules really take,
// and no longer by the work that they state.
#pragma once
#include <optional>
#include <span>

#include "exec/run/measure.hpp"
#include "models/base/fit.hpp"
#include "models/question/experiment.hpp"

namespace dovetail::exec {

struct ModuleProfile {
  LineFit forward, backward;  // over rows of a rank's experts, or tokens of a rank; backward: 0 for forward-only steps
};

struct ModuleProfiles {
  std::optional<ModuleProfile> gate, expert;  // none: the experiment has no own one
};

// Really executes one layer of the experiment with each of these numbers of tokens of a rank: one rank stands for all
// on one core, and its links are held. Throws InputError unless there are two different numbers and a gate or experts
// of the program's own, and as run_on_host does.
ModuleProfiles profile_modules(const Experiment& experiment, std::span<const int> tokens,
                               const MeasureSettings& settings);

// The experiment that was profiled, with these times in place of stated work. It can be planned and simulated, but not
// executed.
Experiment with_profiles(Experiment experiment, const ModuleProfiles& profiles);

}  // namespace dovetail::exec

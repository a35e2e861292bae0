// SPDX-License-Identifier: Apache-2.0
// Steps of two plans in turn on the same weights and optimizer states, with ranks as threads of this process: what a
// switch from one to the other costs.
#pragma once
#include <array>
#include <memory>

#include "exec/run/measured_run.hpp"
#include "models/question/experiment.hpp"
#include "models/results/switch_report.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail::exec {

using SchedulePair = std::array<std::shared_ptr<const Schedule>, 2>;

// Throws InputError, in terms of --alternate, where steps of the second plan cannot go on with what the first keeps, or
// where no step goes on from another: forward passes, and layers alone, whose ranks do not sum gradients of routers.
void require_alternating(const Experiment& experiment, const SchedulePair& plans);

// First trains some steps in double, by both plans in turn, and compares each with the sequential reference. Then times
// steps in the format of the experiment, nothing of which is held to modelled times: A A B B A, B B A A B and so on,
// until the limit of `options.measure` or until weights have moved by about their own size. Takes its seed, patience,
// `stuck` and `check_numerics` from the options too. Leaves `settings` of the report empty. Throws as run_on_host().
SwitchReport alternate_on_host(const Experiment& experiment, const SchedulePair& plans, const RunOptions& options);

}  // namespace dovetail::exec

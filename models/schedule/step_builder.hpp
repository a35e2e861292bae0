// SPDX-License-Identifier: Apache-2.0
// The one builder: (experiment, plan) -> schedule. No code path belongs to a published system.
#pragma once
#include "models/plan/plan.hpp"
#include "models/question/experiment.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail {

// Micro-batches that are alike are built once and copied, or all built part by part: for tests, the schedule is equal.
enum class Units { Copied, Built };

// Halves: backward passes are in halves, one right after the other, whatever the plan's schedule; to tell what each of
// them takes. Not with what rules refuse for schedules in halves.
enum class Backward { AsPlanned, Halves };

// The ops of a step in program order. Order ready_first follows from prices, which are not known here: its ops come in
// the order that alternate gives them; build_schedule() (price/build_schedule.hpp) reorders them. Throws InputError
// for a plan or experiment that cannot be built (see validate(Plan) and validate(Experiment)).
Schedule build_step(const Experiment& experiment, const Plan& plan, Units units = Units::Copied,
                    Backward backward = Backward::AsPlanned);

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
// One round's measurement of a plan, as a journal keeps it, and its way into the outcome.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "exec/host/host_run.hpp"
#include "models/base/json/json_reader.hpp"
#include "models/price/price.hpp"
#include "models/results/validation.hpp"
#include "models/time/timeline.hpp"

namespace dovetail::bench {

// The times of a schedule's ops by kind and pass, in the order of the schedule, as they are predicted to run. Nothing
// is measured yet.
std::vector<OpTimes> predicted_times(const PricedSchedule& priced, const Timeline& predicted);

// `checked`: numerics were compared in this round.
nlohmann::ordered_json measured_json(const PricedSchedule& priced, const exec::RunResult& run, bool checked);

// Adds a round: all is summed but for memory, of which the largest stays. `outcome` has the ops that are expected.
// Throws InputError where a value cannot be: a journal may be damaged.
void add_measured(const JsonReader& json, PlanOutcome& outcome);
// After the last of at least one round: means of what was summed, but for overruns; median and interval of samples.
void finish_measured(PlanOutcome& outcome, std::uint64_t seed);

}  // namespace dovetail::bench

// SPDX-License-Identifier: Apache-2.0
// Costs enter here, once: a schedule, an experiment and its calibration give a priced schedule.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "models/price/priced_schedule.hpp"
#include "models/question/experiment.hpp"

namespace dovetail {

class RoutedRows;

// Resources per rank class: compute, inter (network), intra (links in the node), copy (to and from the host) if the
// schedule has such a stream, and one "a/b" contention resource per interference factor of the calibration (none where
// overlap is ideal). The resource of a collective follows its group; an all-to-all may take several (see
// step_cost.hpp). A described network adds its links and the device memory, with activities for the flows of each op
// (see network_load.hpp). Launches take the host's time if the calibration has one. The experiment's events stay out:
// see inject(). Throws InputError where the calibration lacks a cost.
//
// `routed`: the rows of this experiment's schedule where somebody has them; they are found otherwise.
PricedSchedule price(std::shared_ptr<const Schedule> schedule, const Experiment& experiment,
                     const RoutedRows* routed = nullptr);

// The number of resources that each rank class has, one by InterferenceClass. They stand first, class by class.
std::size_t kinds_of(const Schedule& schedule);

// One line for each profiled module whose measured range a schedule leaves: such times are extrapolated.
std::vector<std::string> extrapolated_profiles(const Schedule& schedule, const Model& model);

}  // namespace dovetail

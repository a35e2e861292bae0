// SPDX-License-Identifier: Apache-2.0
// Reports for the tests of this folder.
#pragma once
#include "models/results/result.hpp"

namespace dovetail::test {

// Written out by hand, so that approved outputs change only when reports do: three systems on one layer of six
// ops, the last of which does not fit.
Report small_report();

// The second of those predicted and really run.
Report small_run_report();

// Built, priced and predicted by the models: the systems of the main job on seven layers of Mixtral.
Report mixtral_report();

// Four micro-batches through two pipeline stages.
Report pipeline_report();
Report long_report();  // two steps of many micro-batches

}  // namespace dovetail::test

// SPDX-License-Identifier: Apache-2.0
// From a question without groups to the fastest layouts and plans for it.
#pragma once
#include "bench/pipeline/tune_question.hpp"
#include "models/results/result.hpp"
#include "planners/layouts/layout_search.hpp"

namespace dovetail::bench {

// Searches. `say` is told what is being searched, and which share of everything is done. The report has a tuning.
Report tune(const TuneQuestion& question, const TuneOptions& options, const planners::SearchProgress& say);

// Builds and times the best plan whole, for what shows its step op by op. Nothing where there is none.
void add_whole_step(Report& report);

}  // namespace dovetail::bench

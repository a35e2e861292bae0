// SPDX-License-Identifier: Apache-2.0
// From a question without groups to the fastest layouts and plans for it.
#pragma once
#include "bench/pipeline/tune_question.hpp"
#include "models/results/tuning.hpp"
#include "planners/layouts/layout_search.hpp"

namespace dovetail::bench {

// Searches. `say` is told what is being searched, and which share of everything is done.
Tuning tune(const TuneQuestion& question, const TuneOptions& options, const planners::SearchProgress& say);

}  // namespace dovetail::bench

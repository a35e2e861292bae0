// SPDX-License-Identifier: Apache-2.0
// From the best of several plans to the numbers that explain it (models/results/explanation.hpp).
#pragma once
#include <functional>
#include <optional>

#include "bench/cli/options.hpp"
#include "models/results/explanation.hpp"
#include "models/results/result.hpp"
#include "planners/layouts/layout_search.hpp"

namespace dovetail::bench {

// Whether the options ask for one: with --explain, and in a saved result or page, of which dovetail explain and readers
// expect it.
bool is_explained(const Options& options);

// Sets the explanation of a report where the options ask for it.
void add_explanation(const Options& options, Report& report);

// The question with the framework's kernels fused; none where it has no such options that are off.
using FusedQuestion = std::function<std::optional<Experiment>()>;
FusedQuestion with_fused_kernels(const Options& options, const Experiment& experiment);

// Explains the fastest result that fits, or else the first one. Returns none where no result is modelled. Times are
// those of the analytic backend.
std::optional<Explanation> explain(const Report& report, const FusedQuestion& fused = {});

// Explains the first plan, which is the fastest. The second, where there is one, is the next best. `experiment`: the
// question without a layout. `as_run`: alternatives are those that a framework runs as they are; empty: any.
Explanation explain(const Experiment& experiment, Bytes limit, const std::vector<planners::LaidOutPlan>& best,
                    const FusedQuestion& fused = {}, const planners::AsRun& as_run = {});

}  // namespace dovetail::bench

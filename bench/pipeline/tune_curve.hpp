// SPDX-License-Identifier: Apache-2.0
// One training tuned on several clusters, or on several sizes of one.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "bench/pipeline/tune.hpp"

namespace dovetail::bench {

// "64..1024": 64, 128 and so on, doubled up to 1024, which is the last one whatever doubling gives; "64,96" are these;
// "64" is one. Throws InputError.
std::vector<int> gpu_counts(const std::string& text);

// The options for each cluster of --cluster and each count of --gpus, with the nodes that hold them. One: nothing
// varies. Throws InputError where GPUs are not whole nodes of a cluster, or where --nodes says how many there are.
std::vector<TuneOptions> hardware_choices(const TuneOptions& options);

// Tunes each of these. All questions are loaded before the first is searched. `begin` is told what is searched and
// which share of this one is done; `done` follows each. A cluster that nothing fits or divides is a point with its
// reason.
Report tune_curve(const std::vector<TuneOptions>& choices, FilesRead& files, const planners::SearchProgress& begin,
                  const std::function<void()>& done);

}  // namespace dovetail::bench

// SPDX-License-Identifier: Apache-2.0
// The ways to lay a training out on a cluster: how ranks form groups, and how many samples go through them together.
#pragma once
#include <optional>
#include <vector>

#include "models/question/experiment.hpp"

namespace dovetail::planners {

struct ParallelLayout {
  Parallelism groups;
  int micro_batch = 1;    // samples of a model-parallel group that go through the layers together
  int micro_batches = 1;  // of a step, one after the other
  friend bool operator==(const ParallelLayout& a, const ParallelLayout& b);
};

// A step trains `global_batch` samples. Sizes that are given restrict the layouts.
struct LayoutRequest {
  int global_batch = 1;
  std::optional<int> pp = {}, mp = {}, dp = {}, ep = {}, esp = {}, edp = {}, micro_batch = {};
};

// Every layout of the experiment's model on all GPUs of its cluster: dense groups and experts' groups fold over the
// same ranks of a stage, each in every way that divides them, the global batch, the heads, the experts and the hidden
// sizes. Model-parallel groups and the shards of an expert stay inside a node unless their sizes are given. The rest
// of the experiment, such as sequence_parallel, stays as it is.
std::vector<ParallelLayout> layouts(const Experiment& experiment, const LayoutRequest& request);

// The experiment laid out so, with the capacity that follows. It may still be refused by validate().
Experiment with_layout(const Experiment& experiment, const ParallelLayout& layout);

}  // namespace dovetail::planners

// SPDX-License-Identifier: Apache-2.0
// Splits the all-reduce of the dense gradients over the backward pass (FSMoE section 5), together with each layer's
// backward degree. Exact for its problem; the paper approximates it in two steps with differential evolution.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "models/base/units.hpp"
#include "models/plan/plan.hpp"
#include "planners/closed_form/layer_times.hpp"

namespace dovetail::planners {

// Carrying all-reduces of R together, a window takes max(alone, link + R) of its best option: `alone` is its time
// without them, `link` what they queue with. alone - link is the paper's overlappable time of step 1.
struct WindowOption {
  int degree = 1;  // Window::Moe: the layer's backward degree; 0: any (a dense layer)
  Seconds alone, link;
};

struct GradientWindow {
  Window window = Window::Moe;
  int layer = 0;
  std::int64_t ready = 0;  // gradients that exist when the window begins: those of the layers after it
  std::vector<WindowOption> options;
};

struct GradientProblem {
  std::vector<GradientWindow> windows;  // in the order in which they run
  std::int64_t elements = 0;            // of all layers; those in no window are reduced after the last one
  Seconds alpha, per_element;           // of one all-reduce
  Seconds fixed;                        // of the backward pass outside windows and tail
  Seconds beside_tail, after_tail;      // the tail takes max(beside, all-reduce + after)
};

struct GradientPartition {
  std::vector<GradientSlice> slices;  // add up to all elements
  std::vector<int> degrees;           // backward degree per layer; 0: any
  Seconds time;                       // of the backward pass with synchronisation and update
};

// The partition in which each window takes so many elements, and the tail the rest.
GradientPartition with_sizes(const GradientProblem& problem, std::span<const std::int64_t> elements);

// The least time over all slices and options, but for at most one element per window.
GradientPartition partition_gradients(const GradientProblem& problem);

// The backward pass (of the last micro-batch) of one stage, whose MoE layers may take any of these degrees. A window
// beside attention can carry what attention (and, where all-reduces have a stream without other ops at that time, its
// neighbours) hides; a dense layer's window Moe is beside its feed-forward op.
GradientProblem gradient_problem(const LayerTimes& times, CommStreams streams, std::span<const int> degrees);

// Partitions each pipeline stage by itself. Returns the slices of all, last stage first, and the time of the slowest.
using PartitionMethod = GradientPartition (*)(const GradientProblem&);
GradientPartition partition_gradients(const LayerTimes& times, CommStreams streams, std::span<const int> degrees,
                                      PartitionMethod method = partition_gradients);

// `plan` with grad_sync partitioned, the slices and the backward degrees of the partition.
Plan with_partition(Plan plan, const GradientPartition& partition);
// `plan` with grad_sync partitioned, but sliced as another grad_sync does it.
Plan with_slices_of(Plan plan, GradSync other, const LayerTimes& times);

}  // namespace dovetail::planners

// SPDX-License-Identifier: Apache-2.0
// The inputs of the closed forms: the times of one layer's parts, read off the priced sequential schedule. An op's
// fixed time is the alpha of a chunk, and the rest is shared among chunks.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "models/plan/plan.hpp"
#include "models/question/experiment.hpp"
#include "models/question/stage_layout.hpp"
#include "models/schedule/schedule.hpp"
#include "planners/closed_form/four_case.hpp"

namespace dovetail::planners {

// A dense feed-forward part in one phase: what stands before its op (gather, sum of gradients) and after it.
struct FfnTimes {
  Seconds before, ffn, after;
  Seconds total() const { return before + ffn + after; }
};

// One phase of an MoE layer. Each op is named by what the phase does at that place: backward, `decode` is its first op
// and `encode` follows the experts.
struct PhaseTimes {
  MoeTimes moe;
  Seconds encode, gate, decode;
  Seconds attention;
  Seconds mp_before, mp_after;  // model-parallel collectives before and after attention; 0 without model parallelism

  FfnTimes shared;  // shared experts: forward after the layer's decode, backward before it; 0 without

  Seconds dense() const { return encode + gate + decode + attention + mp_before + mp_after + shared.total(); }
};

// MoE layers are alike, and so are dense layers. Attention takes as long in both.
struct LayerTimes {
  std::vector<bool> moe;                     // by layer; else dense
  StageLayout layout{0};                     // which pipeline stage has which layers
  std::vector<std::int64_t> dense_elements;  // by layer: its dense gradients
  std::int64_t capacity = 0;                 // rows that are cut into chunks
  PhaseTimes forward, backward;              // of an MoE layer; backward is all 0 in a forward-only workload
  FfnTimes dense_forward, dense_backward;    // of a dense layer; 0 without
  Seconds all_reduce_alpha;                  // of each all-reduce of dense gradients; 0 without data parallelism
  Seconds all_reduce_per_element;
  Seconds expert_all_reduce;  // of all layers together
  Seconds update;             // of the stage where it takes longest

  int layers() const { return static_cast<int>(moe.size()); }
  bool is_moe(int layer) const { return moe[static_cast<std::size_t>(layer)]; }
  // Dense gradients that exist when the backward pass reaches a layer: those of the layers after it. -1: all.
  std::int64_t elements_after(int layer) const;
  LayerTimes of_layers(std::span<const int> layers) const;
};

// The plan that does the same work one op after the other: it keeps the knobs of class volumes, except shadowed
// experts. All other knobs have their defaults.
Plan sequential_plan(const Plan& plan);

// Whether a collective belongs to a dense feed-forward part and not to attention, which its kind does not tell.
bool touches_ffn(const Schedule& schedule, const Op& op);

// The times of one micro-batch, with the encoding and all-to-alls of `plan`. Steps of an all-to-all are added up.
LayerTimes layer_times(const Experiment& experiment, const Plan& plan = {});

}  // namespace dovetail::planners

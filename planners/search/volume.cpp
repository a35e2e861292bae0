// SPDX-License-Identifier: Apache-2.0
#include "planners/search/volume.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "planners/search/search_time.hpp"
#include "planners/task/contest.hpp"

namespace dovetail::planners {
namespace {

// The arrangement that every volume allows if it allows any.
Plan simplest_arrangement(Plan plan) {
  plan.scope = Scope::Moe;
  plan.split = Split::Capacity;
  plan.restore = Restore::Keep;
  plan.buffers = Buffers::PerChunk;
  return plan;
}

}  // namespace

Volume::Volume(Plan plan, const StepBound& steps) : plan_(std::move(plan)), steps_(&steps), floor_(steps.floor(plan_)) {
  Plan simplest = simplest_arrangement(plan_);
  for (const auto& [name, streams] : comm_streams_names) {
    simplest.comm_streams = streams;
    streams_[static_cast<std::size_t>(streams)] = steps.streams(simplest);
  }
}

Seconds Volume::floor() const {
  Plan any = plan_;
  any.scope = Scope::Block;  // its floors are the lowest
  Seconds least = never;
  for (const auto& [name, streams] : comm_streams_names) {
    any.comm_streams = streams;
    least = std::min(least, floor(any, 0, 0));
  }
  return least;
}

Seconds Volume::floor(const Plan& plan, int forward, int backward, Seconds chain) const {
  const StreamFloor& streams = streams_[static_cast<std::size_t>(plan.comm_streams)];
  if (steps_->halves())
    return steps_->of_halves(streams, floor_.forward.hidden(std::max(forward, 1)),
                             floor_.backward.hidden(std::max(backward, 1)));
  return steps_->of(streams, std::max(chain, pass_floor(plan, floor_.forward, forward)),
                    pass_floor(plan, floor_.backward, backward));
}

Seconds Volume::pass_floor(const Plan& plan, const PassFloor& floor, int degree) const {
  const bool beside_exchanges = plan.scope == Scope::Block || plan.shared_experts == SharedExperts::Overlapped;
  if (degree == 0 || beside_exchanges || plan.split == Split::Peers) return floor.hidden(std::max(degree, 1));
  const auto capacity = static_cast<double>(steps_->capacity());
  return floor.at(degree, std::floor(capacity / degree) / capacity);
}

std::optional<Volume> VolumeBounds::volume_of(Plan plan) {
  plan.forward_degree = plan.backward_degree = 1;
  plan.backward_degrees.clear();
  if (plan.grad_sync == GradSync::Partitioned && plan.gradient_slices.empty()) plan.grad_sync = GradSync::After;
  if (refusal(simplest_arrangement(plan), experiment_)) return {};
  std::unique_ptr<StepBound>& steps = steps_[{volume_kind(plan), plan.pipeline().halves}];
  if (!steps) steps = if_answered([&] { return std::make_unique<StepBound>(experiment_, plan); }).value_or(nullptr);
  if (!steps) return {};
  return Volume(std::move(plan), *steps);
}

}  // namespace dovetail::planners

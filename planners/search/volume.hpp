// SPDX-License-Identifier: Apache-2.0
// A volume is the set of plans that run the same ops, however these are arranged. Here are the lower bounds of its
// plans that follow from the ops alone.
#pragma once
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "planners/search/plan_kinds.hpp"
#include "planners/search/step_bound.hpp"

namespace dovetail::planners {

class Volume {
 public:
  Volume(Plan plan, const StepBound& steps);

  const Plan& plan() const { return plan_; }  // of degree 1, its gradients reduced in any way that it allows
  const StepBound& steps() const { return *steps_; }

  // No plan of the volume is faster.
  Seconds floor() const;

  // No plan arranged as `plan` is faster with these degrees; 0: with any. `chain`: what a forward pass takes at least,
  // if that is known.
  Seconds floor(const Plan& plan, int forward, int backward, Seconds chain = Seconds(0)) const;

  // No forward pass of a layer is faster with this degree.
  Seconds forward_floor(const Plan& plan, int degree) const { return pass_floor(plan, floor_.forward, degree); }

 private:
  Seconds pass_floor(const Plan& plan, const PassFloor& floor, int degree) const;

  Plan plan_;
  const StepBound* steps_;
  LayerFloor floor_;
  std::array<StreamFloor, comm_streams_names.size()> streams_{};  // by CommStreams
};

// Makes volumes, and keeps the bounds that several of them share.
class VolumeBounds {
 public:
  explicit VolumeBounds(const Experiment& experiment) : experiment_(experiment) {}

  // The volume lives as long as this. None: it cannot be built, or its costs are not known.
  std::optional<Volume> volume_of(Plan plan);

 private:
  const Experiment& experiment_;
  using Kind = std::pair<decltype(volume_kind(Plan{})), bool>;  // and whether passes are in halves
  std::map<Kind, std::unique_ptr<StepBound>> steps_;
};

}  // namespace dovetail::planners

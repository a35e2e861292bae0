// SPDX-License-Identifier: Apache-2.0
// The tensors that steps of different plans have in common: those that outlive a step, named by what they hold.
#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/question/experiment.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail::exec {

// Two tensors with equal names hold the same, whatever the plan: which numbers a rank has of it follows from the
// experiment and the rank alone (initial_values()), but for optimizer states, see storage_difference().
struct LastingName {
  TensorKind kind = {};
  int layer = 0, micro_batch = 0, expert = -1;
  bool gradient = false;
  std::int64_t elements = 0;
  int place = 0;  // among those of one schedule that are alike in all else
  friend auto operator<=>(const LastingName&, const LastingName&) = default;
};
struct LastingTensor {
  LastingName name;
  TensorId id;
};

// One rank has these, in ascending order of their names: weights, gradients of weights, optimizer states, inputs.
std::vector<LastingTensor> lasting_tensors(const Schedule& schedule, int rank);

// The part of them that a step of a training takes over from the one before (is_trained()), in the same order.
std::vector<LastingTensor> kept_tensors(const Schedule& schedule, int rank);

// Why a step of `second` cannot go on with the weights and the optimizer states of a step of `first` as they lie in
// each rank's memory; none: it can. Both are training steps of the experiment.
std::optional<std::string> storage_difference(const Experiment& experiment, const Schedule& first,
                                              const Schedule& second);

}  // namespace dovetail::exec

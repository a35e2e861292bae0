// SPDX-License-Identifier: Apache-2.0
// The use that a step makes of one rank's tensors, wherever they lie: their values at its start, and who uses them.
#pragma once
#include <vector>

#include "exec/reference/model_data.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail::exec {

// The values of a tensor when a step starts; null: none. Refers to the experiment and the data.
Numbers initial_values(const Experiment& experiment, const Tensor& tensor, const ModelData& data, int rank);

// Gradients are added to, and moments too.
bool starts_at_zero(const Tensor& tensor);

// Weights and moments, which the next step of a training takes over.
bool is_trained(const Tensor& tensor);

// By tensor of a rank class, the ops after the last of which nobody needs its values. They stand in program order, and
// an op that reads and writes the tensor stands twice. Some tensors have none: those of other classes, those that
// outlive the step, those that are read after it, and those that nobody reads.
IdVector<TensorId, std::vector<OpId>> users_until_release(const Experiment& experiment, const Schedule& schedule,
                                                          int rank_class);

}  // namespace dovetail::exec

// SPDX-License-Identifier: Apache-2.0
// A training of some steps: the losses of an executor beside those of the sequential reference.
#pragma once
#include <cstdint>
#include <optional>

#include "exec/reference/model_data.hpp"
#include "exec/run/executor.hpp"
#include "exec/run/rank_values.hpp"
#include "models/results/result.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail::exec {

struct TrainingSettings {
  int steps = 1;
  std::uint64_t seed = 1;           // of the language, see language_words()
  bool check = true;                // train the reference beside it
  std::optional<double> tolerance;  // of losses; none: they are not judged
};

// The tolerance of the relative difference of each step's losses, from that of one step's gradients. Adam moves a
// weight by its rate whatever the gradient's size: an error of the gradient moves it by the rate times the relative
// error. So over 1 / rate = 1,000 steps weights, whose size is about 1, are off by no more than gradients are;
// afterwards in proportion.
double training_tolerance(int steps, double of_gradients);

// Throws InputError, in terms of the option, where there is no loss to report.
void require_trainable(const Experiment& experiment);

// The relative error of the weights that each rank updates. All processes call it and get the same.
double weight_error(const Experiment& experiment, const Schedule& schedule, const RankValues& executor,
                    const ModelData& expected);

// Trains an executor that was made from `start` without preset choices. Each step has a batch of its own, and gates
// take the reference's choices if the executor shares them. All processes call it and get the same report.
TrainingReport train(Executor& executor, const Experiment& experiment, const Schedule& schedule, ModelData start,
                     const TrainingSettings& settings);

}  // namespace dovetail::exec

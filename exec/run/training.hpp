// A training of some steps: the losses of an executor beside those of the sequential reference.
#pragma once
#include <cstdint>
#include <optional>

#include "exec/run/executor.hpp"
#include "models/results/result.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail::exec {

struct TrainingSettings {
  int steps = 1;
  std::uint64_t seed = 1;           // of the language, see language_words()
  bool check = true;                // train the reference beside it
  std::optional<double> tolerance;  // of losses; none: they are not judged
};

// Throws InputError, in terms of the option, where there is no loss to report.
void require_trainable(const Experiment& experiment);

// Trains an executor that was made from `start` without choices of its own. Each step has a batch of its own. Where the
// executor can share them, the gates' choices are those of the reference. All processes call it and get the same report.
TrainingReport train(Executor& executor, const Experiment& experiment, const Schedule& schedule, ModelData start,
                     const TrainingSettings& settings);

}  // namespace dovetail::exec

// SPDX-License-Identifier: Apache-2.0
// Whether pairs of micro-batches pay for a plan, and what decides that.
#pragma once
#include <functional>
#include <optional>

#include "models/question/experiment.hpp"
#include "models/results/explanation.hpp"

namespace dovetail::bench {

// How long a plan takes on an experiment with its groups. Throws InputError where it cannot be built.
using StepOf = std::function<ExplainedStep(const Experiment&, const Plan&)>;

// None where nothing could lie beside anything: in a forward pass, without exchanges, or with one micro-batch.
std::optional<PairsExplained> explain_pairs(const Experiment& experiment, const Plan& plan, const ExplainedStep& step,
                                            const StepOf& step_of);

}  // namespace dovetail::bench

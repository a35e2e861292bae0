// SPDX-License-Identifier: Apache-2.0
// Experiments and plans for tests of the whole plan space: drawn at random from a seed, or those of shipped systems.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "models/plan/knob_table.hpp"
#include "models/question/experiment.hpp"
#include "tests/support/draw.hpp"

namespace dovetail::test {

// A few ranks, layers and tokens, with any grouping of the ranks. Valid.
Experiment random_experiment(Random& random);
// The same, with kernels that executors have: causal flash attention, products in the format of all else.
Experiment random_executable(Random& random);
// The same, with padded messages: devices send no others yet.
Experiment random_on_device(Random& random);
// The factor on a tolerance: rounding grows through many layers of random weights, to 1.2e-5 in float through three of
// them and to 5e-11 in double through five, whatever the plan is. Wrong data is off by far more.
double rounding_growth(const Experiment& e);

// Its tensors are so small that latencies decide: makes the bytes of each collective up to 100,000 times as dear.
void weigh_bytes(Random& random, Experiment& experiment);

// Every knob has its default with probability .7, else a value at random: most draws contradict themselves
// or the experiment somewhere.
Plan random_plan(Random& random, const Experiment& experiment, std::span<const Knob> table = knobs());

// Gives the plan a program of its own: any order in which its ranks can run its micro-batches.
void list_program(Random& random, const Experiment& experiment, Plan& plan);

// Why validate(plan) refuses the plan; nothing if it does not.
std::optional<std::string> refusal(const Plan& plan, const Experiment& experiment);

// Draws plans until one is legal.
Plan random_legal_plan(Random& random, const Experiment& experiment);

// The plan of a shipped system. Gradients that a planner would partition go with the dense part instead.
Plan shipped_plan(const std::string& system);
// Whether its micro-batches overlap or pass the pipeline in halves.
bool needs_micro_batches(const Plan& plan);
// Gives such a plan as many as it needs, each as large as the batch was.
void fill_pipeline(Plan& plan, Experiment& experiment);
// Cuts the rows of a plan that overlaps anything within a micro-batch into so many chunks, unless its chunks are peers.
void cut_rows(Plan& plan, int degree);

std::string describe(const Experiment& experiment, const Plan& plan);  // one line, for failures

}  // namespace dovetail::test

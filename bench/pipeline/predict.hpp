// SPDX-License-Identifier: Apache-2.0
// The answer to a question with one system or plan.
#pragma once
#include "bench/pipeline/question.hpp"
#include "models/results/result.hpp"
#include "models/time/backend.hpp"

namespace dovetail::bench {

// A report of the question's first candidate alone, as its planner completes it. Throws InputError where it cannot do
// what is asked.
Report predict(const Question& question, Backend& backend, Arenas arenas = Arenas::Planned);

}  // namespace dovetail::bench

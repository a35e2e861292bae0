// SPDX-License-Identifier: Apache-2.0
// Whether a plan can be built for an experiment, and whether it has an answer.
#pragma once
#include <optional>
#include <type_traits>

#include "models/base/errors.hpp"
#include "models/plan/plan.hpp"
#include "models/question/experiment.hpp"

namespace dovetail::planners {

// Why the plan cannot be built; none: it can.
std::optional<InputError> refusal(const Plan& plan, const Experiment& experiment);

// The InputError that `ask` throws; none: it throws none.
template <class Ask>
std::optional<InputError> refusal_of(const Ask& ask) {
  try {
    ask();
    return std::nullopt;
  } catch (const InputError& error) {
    return error;
  }
}

// The result of `ask`, or nothing where it throws InputError. Searches go on without a plan that has no answer: a cost
// is missing for it, or its groups cannot be folded onto the network.
template <class Ask>
std::optional<std::invoke_result_t<Ask>> if_answered(const Ask& ask) {
  std::optional<std::invoke_result_t<Ask>> answer;
  static_cast<void>(refusal_of([&] { answer.emplace(ask()); }));
  return answer;
}

}  // namespace dovetail::planners

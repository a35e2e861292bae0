// SPDX-License-Identifier: Apache-2.0
// Runs a plan's step for real and compares it with the reference.
#pragma once
#include <memory>

#include "exec/run/numerics.hpp"
#include "exec/run/sent_bytes.hpp"
#include "models/plan/plan.hpp"

namespace dovetail::test {

// With `preset` the gates use the reference's routing.
exec::NumericsReport numerics_of(const Experiment& experiment, const Plan& plan, exec::Element element,
                                 bool preset = true);

// In double with gates of their own and in float with the reference's routing, each within its tolerance.
void check_numerics(const Experiment& experiment, const Plan& plan, bool some_dropped = false);

// The bytes that the ranks send in a step on threads, op by op.
struct ExecutedStep {
  std::shared_ptr<const Schedule> schedule;
  IdVector<OpId, exec::SentBytes> sent;
};
ExecutedStep execute(const Experiment& experiment, const Plan& plan);

// The bytes that the messages of a simulated op have together.
double simulated_bytes(const Experiment& experiment, const Schedule& schedule, const Op& op);

}  // namespace dovetail::test

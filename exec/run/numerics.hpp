// SPDX-License-Identifier: Apache-2.0
// Compares what an executed step left in its tensors with the reference.
#pragma once
#include "exec/reference/reference.hpp"
#include "exec/run/rank_values.hpp"
#include "exec/transport/transport.hpp"

namespace dovetail::exec {

// Relative Frobenius norms of differences over all ranks; gradients: the worst of the layers.
struct NumericsReport {
  double output_error = 0;
  double input_gradient_error = 0, dense_gradient_error = 0, router_gradient_error = 0, expert_gradient_error = 0;
  double gradient_norm_error = 0;  // where gradients are clipped
  std::int64_t dropped = 0, reference_dropped = 0;
  double rounding_error = 0;  // of the outputs against a reference without compressed messages, if they are

  double gradient_error() const;
  bool ok(double tolerance) const;  // false for NaN
};

// 1e-12 double, 1e-5 float. A float that lies within its own error of the middle between two numbers of a message's
// format is rounded the other way than the reference: a share error / spacing of the values then differs by one
// spacing, so that float is held to sqrt(1e-5 spacing) where messages are compressed (2.8e-4 bf16, 1.1e-3 fp8).
double tolerance_of(Element element, const ComputeRules& rules = {});

// Covers the ranks of all processes, which all call it and get the same figures.
NumericsReport compare(const Experiment& experiment, const Schedule& schedule, const RankValues& executor,
                       const Reference& reference, const Reference* without_rounding = nullptr);

}  // namespace dovetail::exec

// Compares what an executed step left in its tensors with the reference.
#pragma once
#include "exec/host_executor.hpp"
#include "exec/reference.hpp"

namespace dovetail::exec {

// Relative Frobenius norms of differences over all ranks; gradients: the worst of the layers.
struct NumericsReport {
  double output_error = 0;
  double input_gradient_error = 0, dense_gradient_error = 0, router_gradient_error = 0, expert_gradient_error = 0;
  std::int64_t dropped = 0, reference_dropped = 0;

  double gradient_error() const;
  bool ok(double tolerance) const;  // false for NaN
};

double tolerance_of(Element element);  // 1e-12 double, 1e-5 float

// All ranks must be in this process.
NumericsReport compare(const Experiment& experiment, const Schedule& schedule, const HostExecutor& executor,
                       const Reference& reference);

}  // namespace dovetail::exec

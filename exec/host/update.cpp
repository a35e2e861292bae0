// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "exec/host/host_kernels.hpp"
#include "exec/step/adam_rule.hpp"

namespace dovetail::exec {

template <class Scalar>
void adam_step(std::int64_t count, const Scalar* gradient, int step, Scalar* weights, Scalar* mean, Scalar* variance) {
  constexpr Scalar beta1 = Scalar(adam_beta1), beta2 = Scalar(adam_beta2), epsilon = Scalar(adam_epsilon);
  const AdamScales<Scalar> scales(step);
  for (std::int64_t i = 0; i < count; ++i) {
    mean[i] = beta1 * mean[i] + adam_new_mean<Scalar> * gradient[i];
    variance[i] = beta2 * variance[i] + adam_new_variance<Scalar> * gradient[i] * gradient[i];
    weights[i] -= scales.mean * mean[i] / (std::sqrt(variance[i] * scales.variance) + epsilon);
  }
}

template void adam_step<float>(std::int64_t, const float*, int, float*, float*, float*);
template void adam_step<double>(std::int64_t, const double*, int, double*, double*, double*);

}  // namespace dovetail::exec

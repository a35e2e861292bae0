#include <cmath>

#include "exec/host/host_kernels.hpp"

namespace dovetail::exec {

// Adam (Kingma and Ba), with their default settings and no weight decay.
template <class Scalar>
void adam_step(std::int64_t count, const Scalar* gradient, int step, Scalar* weights, Scalar* mean, Scalar* variance) {
  constexpr Scalar rate = Scalar(1e-3), beta1 = Scalar(.9), beta2 = Scalar(.999), epsilon = Scalar(1e-8);
  const Scalar mean_scale = static_cast<Scalar>(rate / (1 - std::pow(.9, step)));
  const Scalar variance_scale = static_cast<Scalar>(1 / (1 - std::pow(.999, step)));
  for (std::int64_t i = 0; i < count; ++i) {
    mean[i] = beta1 * mean[i] + (1 - beta1) * gradient[i];
    variance[i] = beta2 * variance[i] + (1 - beta2) * gradient[i] * gradient[i];
    weights[i] -= mean_scale * mean[i] / (std::sqrt(variance[i] * variance_scale) + epsilon);
  }
}

template void adam_step<float>(std::int64_t, const float*, int, float*, float*, float*);
template void adam_step<double>(std::int64_t, const double*, int, double*, double*, double*);

}  // namespace dovetail::exec

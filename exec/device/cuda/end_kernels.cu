// SPDX-License-Identifier: Apache-2.0
// Kernels of norms, embedding and loss: what the bodies become on a GPU.
#include "exec/device/cuda/launch.cuh"
#include "exec/device/end_bodies.hpp"

namespace dovetail::exec {

#define DOVETAIL_KERNELS(Scalar)               \
  DOVETAIL_KERNEL(NormRows<Scalar>);           \
  DOVETAIL_KERNEL(NormRowsBackward<Scalar>);   \
  DOVETAIL_KERNEL(NormWeightParts<Scalar>);    \
  DOVETAIL_KERNEL(AddNormWeightParts<Scalar>); \
  DOVETAIL_KERNEL(CopyColumns<Scalar>);        \
  DOVETAIL_KERNEL(LookUpWords<Scalar>);        \
  DOVETAIL_KERNEL(LinkSameWords<Scalar>);      \
  DOVETAIL_KERNEL(AddToWords<Scalar>);         \
  DOVETAIL_KERNEL(LossStatisticsOf<Scalar>);   \
  DOVETAIL_KERNEL(LossOf<Scalar>)

DOVETAIL_KERNELS(double);
DOVETAIL_KERNELS(float);
DOVETAIL_KERNELS(Bf16);

}  // namespace dovetail::exec

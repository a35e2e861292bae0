// SPDX-License-Identifier: Apache-2.0
// Kernels of sums, rows in another order, activations and Adam: what the bodies become on a GPU.
#include "exec/device/cuda/launch.cuh"
#include "exec/device/expert_bodies.hpp"
#include "exec/device/tensor_bodies.hpp"

namespace dovetail::exec {

#define DOVETAIL_KERNELS(Scalar)                        \
  DOVETAIL_KERNEL(Add<Scalar, 1>);                      \
  DOVETAIL_KERNEL(Add<Scalar, pack_size<Scalar>>);      \
  DOVETAIL_KERNEL(SumOf<Scalar, 1>);                    \
  DOVETAIL_KERNEL(SumOf<Scalar, pack_size<Scalar>>);    \
  DOVETAIL_KERNEL(MoveRows<Scalar>);                    \
  DOVETAIL_KERNEL(MoveBlocks<Scalar>);                  \
  DOVETAIL_KERNEL(SquareParts<Scalar>);                 \
  DOVETAIL_KERNEL(AdamStep<Scalar, 1>);                 \
  DOVETAIL_KERNEL(AdamStep<Scalar, pack_size<Scalar>>); \
  DOVETAIL_KERNEL(Relu<Scalar, 1>);                     \
  DOVETAIL_KERNEL(Relu<Scalar, pack_size<Scalar>>);     \
  DOVETAIL_KERNEL(ScaleRows<Scalar>);                   \
  DOVETAIL_KERNEL(GatedActivation<Scalar>);             \
  DOVETAIL_KERNEL(ActivationBackward<Scalar>)

DOVETAIL_KERNELS(double);
DOVETAIL_KERNELS(float);
DOVETAIL_KERNELS(Bf16);
DOVETAIL_KERNEL(AddSquares<double>);
DOVETAIL_KERNEL(AddSquares<float>);

}  // namespace dovetail::exec

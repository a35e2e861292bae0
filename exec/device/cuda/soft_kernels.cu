// SPDX-License-Identifier: Apache-2.0
// Kernels of soft gates, cosines, choices by experts and dense weights: what the bodies become on a GPU.
#include "exec/device/cuda/launch.cuh"
#include "exec/device/soft_bodies.hpp"

namespace dovetail::exec {

#define DOVETAIL_WIDE_KERNELS(Number)      \
  DOVETAIL_KERNEL(ChooseTokens<Number>);   \
  DOVETAIL_KERNEL(TableOfEntries<Number>); \
  DOVETAIL_KERNEL(ReadDense<Number>);      \
  DOVETAIL_KERNEL(SumUp<Number>);          \
  DOVETAIL_KERNEL(CosineLogits<Number>)
#define DOVETAIL_KERNELS(Scalar)                 \
  DOVETAIL_KERNEL(WriteDense<Scalar>);           \
  DOVETAIL_KERNEL(SoftDispatch<Scalar>);         \
  DOVETAIL_KERNEL(SoftDispatchBackward<Scalar>); \
  DOVETAIL_KERNEL(SoftCombineBackward<Scalar>);  \
  DOVETAIL_KERNEL(CosineGradient<Scalar>);       \
  DOVETAIL_KERNEL(WithoutRadial<Scalar>);        \
  DOVETAIL_KERNEL(ThetaGradient<Scalar>);        \
  DOVETAIL_KERNEL(Widen<Scalar>);                \
  DOVETAIL_KERNEL(Narrow<Scalar, 1>);            \
  DOVETAIL_KERNEL(Narrow<Scalar, pack_size<Scalar>>)

DOVETAIL_WIDE_KERNELS(double);
DOVETAIL_WIDE_KERNELS(float);
DOVETAIL_KERNELS(double);
DOVETAIL_KERNELS(float);
DOVETAIL_KERNELS(Bf16);

}  // namespace dovetail::exec

// SPDX-License-Identifier: Apache-2.0
// Kernels of the gate and of compressed messages: what the bodies become on a GPU.
#include "exec/device/cuda/launch.cuh"
#include "exec/device/gate_bodies.hpp"
#include "exec/device/wire_bodies.hpp"

namespace dovetail::exec {

#define DOVETAIL_WIDE_KERNELS(Number)                   \
  DOVETAIL_KERNEL(AddNoise<Number, 1>);                 \
  DOVETAIL_KERNEL(AddNoise<Number, pack_size<Number>>); \
  DOVETAIL_KERNEL(ExpertScores<Number>);                \
  DOVETAIL_KERNEL(ChooseExperts<Number>);               \
  DOVETAIL_KERNEL(WriteRouting<Number>)
#define DOVETAIL_KERNELS(Scalar)                               \
  DOVETAIL_KERNEL(LogitGradients<Scalar>);                     \
  DOVETAIL_KERNEL(SpreadGradients<Scalar, 1>);                 \
  DOVETAIL_KERNEL(SpreadGradients<Scalar, pack_size<Scalar>>); \
  DOVETAIL_KERNEL(CompressFp8<Scalar>);                        \
  DOVETAIL_KERNEL(DecompressFp8<Scalar>);                      \
  DOVETAIL_KERNEL(ToBf16<Scalar, 1>);                          \
  DOVETAIL_KERNEL(ToBf16<Scalar, pack_size<Bf16>>);            \
  DOVETAIL_KERNEL(FromBf16<Scalar, 1>);                        \
  DOVETAIL_KERNEL(FromBf16<Scalar, pack_size<Bf16>>)

DOVETAIL_WIDE_KERNELS(double);
DOVETAIL_WIDE_KERNELS(float);
DOVETAIL_KERNELS(double);
DOVETAIL_KERNELS(float);
DOVETAIL_KERNELS(Bf16);
DOVETAIL_KERNEL(CountChoices);
DOVETAIL_KERNEL(AddUpCounts);
DOVETAIL_KERNEL(GiveSlots);

}  // namespace dovetail::exec

// SPDX-License-Identifier: Apache-2.0
// Kernels of encode, decode, rotary positions and the attention's softmax: what the bodies become on a GPU.
#include "exec/device/attention_bodies.hpp"
#include "exec/device/cuda/launch.cuh"
#include "exec/device/latent_bodies.hpp"
#include "exec/device/order_bodies.hpp"
#include "exec/device/rotary_bodies.hpp"

namespace dovetail::exec {

#define DOVETAIL_KERNELS(Scalar)                         \
  DOVETAIL_KERNEL(CausalSoftmax<Scalar>);                \
  DOVETAIL_KERNEL(SoftmaxBackward<Scalar>);              \
  DOVETAIL_KERNEL(TurnHeads<Scalar, 1>);                 \
  DOVETAIL_KERNEL(TurnHeads<Scalar, pack_size<Scalar>>); \
  DOVETAIL_KERNEL(CopyHeads<Scalar, 1>);                 \
  DOVETAIL_KERNEL(CopyHeads<Scalar, pack_size<Scalar>>); \
  DOVETAIL_KERNEL(SumHeads<Scalar, 1>);                  \
  DOVETAIL_KERNEL(SumHeads<Scalar, pack_size<Scalar>>);  \
  DOVETAIL_KERNEL(FillSlots<Scalar>);                    \
  DOVETAIL_KERNEL(CollectSlots<Scalar>);                 \
  DOVETAIL_KERNEL(ScoreGradients<Scalar>)

DOVETAIL_KERNELS(double);
DOVETAIL_KERNELS(float);
DOVETAIL_KERNELS(Bf16);
DOVETAIL_KERNEL(InvertRouting<double>);
DOVETAIL_KERNEL(InvertRouting<float>);
DOVETAIL_KERNEL(FillScores<double>);
DOVETAIL_KERNEL(FillScores<float>);
DOVETAIL_KERNEL(CollectScores<double>);
DOVETAIL_KERNEL(CollectScores<float>);

}  // namespace dovetail::exec

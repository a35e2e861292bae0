// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/builder/gather_tokens.hpp"

namespace dovetail::builder {

TensorId gather_tokens(StepContext& c, TensorKind kind, int layer, TensorId own) {
  return gather_tokens(c, kind, layer, own, c.volumes(0).hidden);
}

TensorId gather_tokens(StepContext& c, TensorKind kind, int layer, TensorId own, std::int64_t width) {
  if (!c.mp_gathers()) return own;
  const LayerVolumes& any = c.volumes(0);  // all layers have the same tokens
  const TensorId gathered = c.activation(kind, layer, any.sequence_tokens * width);
  c.add(c.op(OpKind::MpAllGather, Phase::Forward, layer, c.streams().mp, c.work(0).mp(Collective::AllGather, width)),
        {own}, {gathered});
  return gathered;
}

void sum_tokens(StepContext& c, Op op, const OpWork& work, TensorId partial, TensorId sum, std::int64_t width) {
  const bool own = c.mp_gathers(), forward = op.phase == Phase::Forward;
  op.kind = !own ? OpKind::MpAllReduce : forward ? OpKind::MpReduceScatter : OpKind::MpAllGather;
  op.stream = c.streams().mp;
  op.work = work.mp(own ? Collective::ReduceScatter : Collective::AllReduce, width);
  c.add(op, {partial}, {sum});
}

void sum_tokens(StepContext& c, Phase phase, int layer, TensorId partial, TensorId sum) {
  sum_tokens(c, c.op({}, phase, layer, c.streams().mp, {}), c.work(0), partial, sum, c.volumes(0).hidden);
}

}  // namespace dovetail::builder

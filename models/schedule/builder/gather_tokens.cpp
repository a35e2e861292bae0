#include "models/schedule/builder/gather_tokens.hpp"

namespace dovetail::builder {

TensorId gather_tokens(StepContext& c, TensorKind kind, int layer, TensorId own, int widths) {
  if (!c.mp_gathers()) return own;
  const LayerVolumes& any = c.volumes(0);  // all layers have the same tokens
  const TensorId gathered = c.activation(kind, layer, any.sequence_tokens * widths * any.hidden);
  c.add(
      c.op(OpKind::MpAllGather, Phase::Forward, layer, c.streams().intra, c.work(0).mp(Collective::AllGather, widths)),
      {own}, {gathered});
  return gathered;
}

}  // namespace dovetail::builder

// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/builder/norm_part.hpp"

#include <algorithm>
#include <array>

namespace dovetail::builder {
namespace {

TensorId weights_of(const StepContext& c, int layer) {
  return layer == c.layers() ? c.end_weights().norm : c.weights(layer).norm;
}

// The final norm has the sizes of the last layer's tokens.
OpWork work_of(StepContext& c, int layer) {
  return c.work(std::min(layer, c.layers() - 1));
}

}  // namespace

TensorId norm_forward(StepContext& c, int layer, TensorId x) {
  const TensorId result = c.activation(TensorKind::NormedInput, layer, c.elements_of(x));
  c.add(c.op(OpKind::Norm, Phase::Forward, layer, c.streams().compute, work_of(c, layer).norm(Phase::Forward)),
        {x, weights_of(c, layer)}, {result});
  return result;
}

TensorId norm_forward(StepContext& c, int layer, const TokenPart& part, TensorId moe_input) {
  const TensorId result = c.activation(TensorKind::NormedMoeInput, layer, c.elements_of(moe_input), false, part.chunk);
  c.add(c.part_op(OpKind::Norm, Phase::Forward, layer, part, c.work(part).norm(Phase::Forward)),
        {moe_input, weights_of(c, layer)}, {result});
  return result;
}

TensorId norm_backward(StepContext& c, int layer, TensorId x, TensorId d_normed, const TensorIds& past) {
  const TensorId result = c.activation(TensorKind::LayerInput, layer, c.elements_of(x), /*gradient=*/true);
  Op o = c.op(OpKind::Norm, Phase::Backward, layer, c.streams().compute, work_of(c, layer).norm(Phase::Backward));
  o.gradients = c.replicated_gradients_of(layer);
  o.gradients.last = o.gradients.first + c.volumes(0).hidden;
  TensorIds reads{d_normed, x, weights_of(c, layer)};
  reads.insert(reads.end(), past.begin(), past.end());
  c.add(o, reads, std::array{result, c.replicated_gradients()});
  return result;
}

TensorId norm_backward(StepContext& c, int layer, const TokenPart& part, TensorId moe_input, TensorId d_normed,
                       TensorId past) {
  const TensorId result =
      c.activation(TensorKind::MoeInput, layer, c.elements_of(moe_input), /*gradient=*/true, part.chunk);
  Op o = c.part_op(OpKind::Norm, Phase::Backward, layer, part, c.work(part).norm(Phase::Backward));
  const std::int64_t hidden = c.volumes(layer).hidden;
  o.gradients.first = c.replicated_gradients_of(layer).first + hidden;
  o.gradients.last = o.gradients.first + hidden;
  c.add(o, {d_normed, moe_input, weights_of(c, layer), past}, {result, c.replicated_gradients()});
  return result;
}

void mtp_norm_forward(StepContext& c, int layer, TensorId x, TensorId result) {
  c.add(c.op(OpKind::Norm, Phase::Forward, layer, c.streams().compute, c.work(layer).norm(Phase::Forward)),
        {x, weights_of(c, layer)}, {result});
}

TensorId mtp_norm_backward(StepContext& c, int layer, MtpNorm which, TensorId x, TensorId d_normed) {
  const LayerVolumes& v = c.volumes(layer);
  const TensorKind kind = which == MtpNorm::Before ? TensorKind::NormedInput : TensorKind::LayerInput;
  const TensorId result = c.activation(kind, layer, c.elements_of(x), /*gradient=*/true);
  Op o = c.op(OpKind::Norm, Phase::Backward, layer, c.streams().compute, c.work(layer).norm(Phase::Backward));
  o.gradients.first = c.replicated_gradients_of(layer).first + v.norm_parameters - v.mtp_norm_parameters +
                      static_cast<std::int64_t>(which) * v.hidden;
  o.gradients.last = o.gradients.first + v.hidden;
  c.add(o, {d_normed, x, weights_of(c, layer)}, {result, c.replicated_gradients()});
  return result;
}

}  // namespace dovetail::builder

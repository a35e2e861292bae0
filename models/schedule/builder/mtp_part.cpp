// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/builder/mtp_part.hpp"

#include "models/schedule/builder/gather_tokens.hpp"
#include "models/schedule/builder/norm_part.hpp"

namespace dovetail::builder {
namespace {

constexpr int halves = 2;

void gather_mtp_input(StepContext& c, int layer, SavedPrediction& saved) {
  saved.input =
      gather_tokens(c, TensorKind::GatheredMtpInput, layer, saved.own_input, halves * c.volumes(layer).hidden);
}

Op mp_collective(StepContext& c, OpKind kind, Phase phase, int layer, Collective collective, int widths = 1) {
  return c.op(kind, phase, layer, c.streams().mp, c.work(layer).mp(collective, widths * c.volumes(layer).hidden));
}

Op projection(StepContext& c, int layer, Phase phase) {
  return c.op(OpKind::MtpProjection, phase, layer, c.streams().compute, c.work(layer).mtp_projection(phase));
}

std::int64_t columns_of(const StepContext& c, int layer) {
  const LayerVolumes& v = c.volumes(layer);
  return v.sequence_tokens * v.mtp_parameters / (halves * v.hidden);
}

}  // namespace

TensorId mtp_input_forward(StepContext& c, int layer, TensorId before, TensorId tokens, SavedPrediction& saved) {
  const LayerVolumes& v = c.volumes(layer);
  saved.before = before;
  saved.embedded = look_up(c, layer, tokens);
  saved.own_input = c.activation(TensorKind::MtpInput, layer, halves * v.tokens * v.hidden);
  mtp_norm_forward(c, layer, saved.embedded, saved.own_input);
  mtp_norm_forward(c, layer, saved.before, saved.own_input);
  gather_mtp_input(c, layer, saved);
  const TensorId input = c.activation(TensorKind::LayerInput, layer, v.tokens * v.hidden);
  const TensorId columns = c.mp_gathers() ? c.activation(TensorKind::MtpColumns, layer, columns_of(c, layer)) : input;
  c.add(projection(c, layer, Phase::Forward), {saved.input, c.weights(layer).dense}, {columns});
  if (c.mp_gathers())
    c.add(mp_collective(c, OpKind::MpAllGather, Phase::Forward, layer, Collective::AllGather), {columns}, {input});
  return input;
}

TensorId mtp_input_backward(StepContext& c, int layer, TensorId d_input, TensorId tokens, SavedPrediction saved) {
  const LayerVolumes& v = c.volumes(layer);
  if (c.recomputes(Recompute::MpGather)) {
    const Recomputation again(c, c.last_writer(d_input));
    gather_mtp_input(c, layer, saved);
  }
  TensorId d_columns = d_input;
  if (c.mp_gathers()) {
    d_columns = c.activation(TensorKind::MtpColumns, layer, columns_of(c, layer), /*gradient=*/true);
    c.add(mp_collective(c, OpKind::MpAllGather, Phase::Backward, layer, Collective::AllGather), {d_input}, {d_columns});
  }
  const TensorKind kind = c.mp_gathers() ? TensorKind::GatheredMtpInput : TensorKind::MtpInput;
  const std::int64_t rows = c.mp_gathers() ? v.sequence_tokens : v.tokens;
  TensorId d_both = c.activation(kind, layer, halves * rows * v.hidden, /*gradient=*/true);
  Op o = projection(c, layer, Phase::Backward);
  o.gradients = c.dense_gradients_of(layer);
  o.gradients.first = o.gradients.last - v.mtp_parameters;
  c.add(o, {d_columns, saved.input, c.weights(layer).dense}, {c.dense_gradients(), d_both});
  if (c.mp_gathers()) {
    const TensorId gathered = d_both;
    d_both = c.activation(TensorKind::MtpInput, layer, halves * v.tokens * v.hidden, /*gradient=*/true);
    c.add(mp_collective(c, OpKind::MpAllGather, Phase::Backward, layer, Collective::ReduceScatter, halves), {gathered},
          {d_both});
  }
  look_up_backward(c, layer, mtp_norm_backward(c, layer, MtpNorm::Embedding, saved.embedded, d_both), tokens);
  return mtp_norm_backward(c, layer, MtpNorm::Before, saved.before, d_both);
}

}  // namespace dovetail::builder

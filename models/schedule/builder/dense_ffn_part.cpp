// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/builder/dense_ffn_part.hpp"

#include <array>

#include "models/schedule/builder/gather_tokens.hpp"

namespace dovetail::builder {

TensorId dense_ffn_forward(StepContext& c, int layer, TensorId x, SavedFfn& saved) {
  const LayerVolumes& v = c.volumes(layer);
  const OpWork work = c.work(layer);
  saved.own_input = x;
  saved.input = gather_tokens(c, TensorKind::FfnInput, layer, x);
  saved.hidden = c.activation(TensorKind::FfnHidden, layer, v.sequence_tokens * (v.expert_gemms - 1) * v.ffn_hidden);
  if (c.is_plain()) c.hold_copies(saved.hidden, Bytes(c.experiment().framework.activation_inputs));
  const TensorId partial = c.activation(TensorKind::FfnPartial, layer, v.sequence_tokens * v.hidden);
  TensorIds writes{saved.hidden, partial};
  if (c.keeps_activated()) {
    saved.activated = c.activation(TensorKind::FfnActivated, layer, v.sequence_tokens * v.ffn_hidden);
    writes.insert(writes.begin() + 1, saved.activated);
  }
  c.add(c.op(OpKind::DenseFfn, Phase::Forward, layer, c.streams().compute,
             work.dense_ffn(Phase::Forward, c.keeps_activated())),
        std::array{saved.input, c.weights(layer).dense}, writes);
  if (!c.model_parallel()) return partial;
  const TensorId output = c.activation(TensorKind::FfnOutput, layer, v.tokens * v.hidden);
  sum_tokens(c, Phase::Forward, layer, partial, output);
  return output;
}

void recompute_ffn(StepContext& c, int layer, bool whole, OpId begin, SavedFfn& saved) {
  const Recomputation again(c, begin);
  if (whole)
    dense_ffn_forward(c, layer, saved.own_input, saved);
  else if ((c.is_recomputed(saved.own_input) || c.recomputes(Recompute::MpGather)) && !c.is_recomputed(saved.input))
    saved.input = gather_tokens(c, TensorKind::FfnInput, layer, saved.own_input);
}

TensorId dense_ffn_backward(StepContext& c, int layer, TensorId d_output, const SavedFfn& saved,
                            const std::function<void()>& after_gather) {
  const LayerVolumes& v = c.volumes(layer);
  const OpWork work = c.work(layer);
  const std::int64_t gathered = v.sequence_tokens * v.hidden;
  TensorId d_partial = d_output;
  if (c.mp_gathers()) {
    d_partial = c.activation(TensorKind::FfnPartial, layer, gathered, /*gradient=*/true);
    c.add(c.op(OpKind::MpReduceScatter, Phase::Backward, layer, c.streams().mp, work.mp(Collective::AllGather)),
          {d_output}, {d_partial});
  }
  after_gather();
  const TensorId d_input = c.activation(TensorKind::FfnInput, layer, gathered, true);
  Op ffn = c.op(OpKind::DenseFfn, Phase::Backward, layer, c.streams().compute, {});
  ffn.gradients = c.dense_gradients_of(layer);
  ffn.gradients.first += v.attention_parameters;
  ffn.gradients.last -= v.mtp_parameters;
  TensorIds reads{d_partial, saved.input, saved.hidden, c.weights(layer).dense};
  if (saved.activated >= 0) reads.insert(reads.begin() + 3, saved.activated);
  const auto make = [&](const OpWork& w) { return w.dense_ffn(Phase::Backward, c.keeps_activated()); };
  c.add_backward(ffn, work, make, reads, std::array{c.dense_gradients(), d_input});
  if (!c.model_parallel()) return d_input;
  const TensorId sum = c.activation(TensorKind::FfnSumGradient, layer, v.tokens * v.hidden);
  sum_tokens(c, Phase::Backward, layer, d_input, sum);
  return sum;
}

void add_up(StepContext& c, Phase phase, int layer, const TensorIds& parts, TensorId sum) {
  c.add(c.op(OpKind::Residual, phase, layer, c.streams().compute, c.work(layer).residual(parts.size())), parts,
        {&sum, 1});
}

}  // namespace dovetail::builder

#include "models/schedule/builder/dense_ffn_part.hpp"

namespace dovetail::builder {

TensorId dense_ffn_forward(StepContext& c, int layer, TensorId x, SavedFfn& saved) {
  const LayerVolumes& v = c.volumes(layer);
  const OpWork work = c.work(layer);
  const bool gathers = c.mp_gathers();
  const std::int64_t gathered = v.sequence_tokens * v.hidden;
  saved.input = x;
  if (gathers) {
    saved.input = c.activation(TensorKind::FfnInput, layer, gathered);
    c.add(c.op(OpKind::MpAllGather, Phase::Forward, layer, c.streams().intra, work.mp(Collective::AllGather)), {x},
          {saved.input});
  }
  saved.hidden = c.activation(TensorKind::FfnHidden, layer, v.sequence_tokens * (v.expert_gemms - 1) * v.ffn_hidden);
  const TensorId partial = c.activation(TensorKind::FfnPartial, layer, gathered);
  c.add(c.op(OpKind::DenseFfn, Phase::Forward, layer, c.streams().compute, work.dense_ffn(Phase::Forward)),
        {saved.input, c.weights(layer).dense}, {saved.hidden, partial});
  if (!gathers) return partial;
  const TensorId output = c.activation(TensorKind::FfnOutput, layer, v.tokens * v.hidden);
  c.add(c.op(OpKind::MpReduceScatter, Phase::Forward, layer, c.streams().intra, work.mp(Collective::ReduceScatter)),
        {partial}, {output});
  return output;
}

TensorId dense_ffn_backward(StepContext& c, int layer, TensorId d_output, const SavedFfn& saved,
                            const std::function<void()>& after_gather) {
  const LayerVolumes& v = c.volumes(layer);
  const OpWork work = c.work(layer);
  const bool gathers = c.mp_gathers();
  const std::int64_t gathered = v.sequence_tokens * v.hidden;
  TensorId d_partial = d_output;
  if (gathers) {
    d_partial = c.activation(TensorKind::FfnPartial, layer, gathered, /*gradient=*/true);
    c.add(c.op(OpKind::MpReduceScatter, Phase::Backward, layer, c.streams().intra, work.mp(Collective::AllGather)),
          {d_output}, {d_partial});
  }
  after_gather();
  const TensorId d_input = c.activation(TensorKind::FfnInput, layer, gathered, true);
  Op ffn = c.op(OpKind::DenseFfn, Phase::Backward, layer, c.streams().compute, work.dense_ffn(Phase::Backward));
  ffn.gradients = c.dense_gradients_of(layer);
  ffn.gradients.first += v.attention_parameters;
  c.add(ffn, {d_partial, saved.input, saved.hidden, c.weights(layer).dense}, {c.dense_gradients(), d_input});
  if (!gathers) return d_input;
  const TensorId sum = c.activation(TensorKind::FfnSumGradient, layer, v.tokens * v.hidden);
  c.add(c.op(OpKind::MpAllGather, Phase::Backward, layer, c.streams().intra, work.mp(Collective::ReduceScatter)),
        {d_input}, {sum});
  return sum;
}

void add_up(StepContext& c, Phase phase, int layer, const TensorIds& parts, TensorId sum) {
  c.add(c.op(OpKind::Residual, phase, layer, c.streams().compute, c.work(layer).residual(parts.size())), parts,
        {&sum, 1});
}

}  // namespace dovetail::builder

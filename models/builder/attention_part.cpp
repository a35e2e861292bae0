#include "models/builder/attention_part.hpp"

namespace dovetail::builder {

TensorId attention_forward(StepContext& c, int layer, TensorId x, SavedAttention& saved) {
  const LayerVolumes& v = c.volumes(layer);
  const OpWork work = c.work(layer);
  const bool gathers = c.groups().mp > 1;
  const std::int64_t gathered = v.sequence_tokens * v.hidden;
  saved.input = x;
  if (gathers) {
    saved.input = c.activation(TensorKind::AttentionInput, layer, gathered);
    c.add(c.op(OpKind::MpAllGather, Phase::Forward, layer, c.streams().intra, work.mp(Collective::AllGather)), {x},
          {saved.input});
  }
  saved.query_key_value =
      c.activation(TensorKind::QueryKeyValue, layer, v.sequence_tokens * (v.query_width + 2 * v.key_value_width));
  saved.context = c.activation(TensorKind::AttentionContext, layer, v.sequence_tokens * v.query_width);
  saved.log_sum_exp = c.fp32(TensorKind::LogSumExp, layer, v.sequence_tokens * v.query_heads);
  const TensorId partial = c.activation(TensorKind::AttentionPartial, layer, gathered);
  c.add(c.op(OpKind::Attention, Phase::Forward, layer, c.streams().compute, work.attention(Phase::Forward)),
        {saved.input, c.weights(layer).dense}, {saved.query_key_value, saved.context, saved.log_sum_exp, partial});
  if (!gathers) return partial;
  const TensorId output = c.activation(TensorKind::AttentionOutput, layer, v.tokens * v.hidden);
  c.add(c.op(OpKind::MpReduceScatter, Phase::Forward, layer, c.streams().intra, work.mp(Collective::ReduceScatter)),
        {partial}, {output});
  return output;
}

TensorId attention_backward_gather(StepContext& c, int layer, TensorId d_output) {
  if (c.groups().mp == 1) return d_output;
  const LayerVolumes& v = c.volumes(layer);
  const TensorId gathered =
      c.activation(TensorKind::AttentionPartial, layer, v.sequence_tokens * v.hidden, /*gradient=*/true);
  c.add(
      c.op(OpKind::MpReduceScatter, Phase::Backward, layer, c.streams().intra, c.work(layer).mp(Collective::AllGather)),
      {d_output}, {gathered});
  return gathered;
}

TensorId attention_backward(StepContext& c, int layer, TensorId d_gathered, const SavedAttention& saved) {
  const LayerVolumes& v = c.volumes(layer);
  const OpWork work = c.work(layer);
  const TensorId d_input = c.activation(TensorKind::AttentionInput, layer, v.sequence_tokens * v.hidden, true);
  Op attention = c.op(OpKind::Attention, Phase::Backward, layer, c.streams().compute, work.attention(Phase::Backward));
  attention.rows = c.dense_gradients_of(layer);
  c.add(attention,
        {d_gathered, saved.input, saved.query_key_value, saved.context, saved.log_sum_exp, c.weights(layer).dense},
        {c.dense_gradients(), d_input});
  if (c.groups().mp == 1) return d_input;
  const TensorId sum = c.activation(TensorKind::AttentionSumGradient, layer, v.tokens * v.hidden);
  c.add(c.op(OpKind::MpAllGather, Phase::Backward, layer, c.streams().intra, work.mp(Collective::ReduceScatter)),
        {d_input}, {sum});
  return sum;
}

}  // namespace dovetail::builder

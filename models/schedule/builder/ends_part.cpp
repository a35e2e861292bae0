// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/builder/ends_part.hpp"

#include "models/schedule/builder/gather_tokens.hpp"
#include "models/schedule/builder/norm_part.hpp"
#include "models/schedule/loss_statistics.hpp"

namespace dovetail::builder {
namespace {

TensorId add_tokens(StepContext& c) {
  return c.persistent(TensorKind::Tokens, 0, 2 * c.volumes(0).sequence_tokens);
}

void add_loss(StepContext& c, int layer, TensorId tokens, TensorId logits) {
  const std::int64_t rows = c.volumes(0).sequence_tokens;
  const StreamId compute = c.streams().compute;
  TensorId of_rows = c.fp32(TensorKind::LossStatistics, layer, loss_statistics * rows);
  c.add(c.op(OpKind::LossStatistics, Phase::Forward, layer, compute, c.end_work().statistics()), {logits, tokens},
        {of_rows});
  if (c.model_parallel()) {
    const TensorId own = of_rows;
    of_rows = c.fp32(TensorKind::GatheredStatistics, layer, c.groups().mp * loss_statistics * rows);
    c.add(c.op(OpKind::GatherStatistics, Phase::Forward, layer, c.streams().mp,
               c.end_work().gather_statistics(c.elements_of(of_rows))),
          {own}, {of_rows});
  }
  TensorIds reads{of_rows, tokens}, writes{c.fp32(TensorKind::Loss, layer, rows)};
  for (TensorIds* ids : {&reads, &writes})
    if (c.training()) ids->push_back(logits);
  c.add(c.op(OpKind::Loss, Phase::Forward, layer, compute, c.end_work().loss(c.training())), reads, writes);
  if (c.training() && layer == c.layers() && c.experiment().framework.waits_for_loss)
    c.wait_for(Phase::Forward, c.layers_of_stage().back(), writes.front());
}

// Layer `layers` stands for the model's own output; a layer of multi-token prediction has a norm of its own.
void norm_output(StepContext& c, int layer, SavedHead& saved) {
  if (layer == c.layers()) {
    saved.own_input = norm_forward(c, layer, saved.output);
    return;
  }
  saved.own_input = c.activation(TensorKind::NormedInput, layer, c.elements_of(saved.output));
  mtp_norm_forward(c, layer, saved.output, saved.own_input);
}

TensorId norm_output_backward(StepContext& c, int layer, const SavedHead& saved, TensorId d_normed) {
  return layer == c.layers() ? norm_backward(c, layer, saved.output, d_normed, {})
                             : mtp_norm_backward(c, layer, MtpNorm::Own, saved.output, d_normed);
}

void gather_head_input(StepContext& c, int layer, SavedHead& saved) {
  saved.input = gather_tokens(c, TensorKind::HeadInput, layer, saved.own_input);
}

}  // namespace

TensorId look_up(StepContext& c, int layer, TensorId tokens) {
  const LayerVolumes& v = c.volumes(0);
  const TensorId input = c.activation(TensorKind::LayerInput, layer, v.tokens * v.hidden);
  const TensorId looked_up =
      c.model_parallel() ? c.activation(TensorKind::EmbeddingPartial, layer, v.sequence_tokens * v.hidden) : input;
  c.add(c.op(OpKind::Embedding, Phase::Forward, layer, c.streams().compute, c.end_work().embedding(Phase::Forward)),
        {tokens, c.embedding_weights()}, {looked_up});
  c.hold_mask(input);
  if (c.model_parallel()) sum_tokens(c, Phase::Forward, layer, looked_up, input);
  return input;
}

void look_up_backward(StepContext& c, int layer, TensorId d_rows, TensorId tokens) {
  const LayerVolumes& v = c.volumes(0);
  if (c.mp_gathers()) {
    const TensorId own = d_rows;
    d_rows = c.activation(TensorKind::EmbeddingPartial, layer, v.sequence_tokens * v.hidden, /*gradient=*/true);
    c.add(c.op(OpKind::MpReduceScatter, Phase::Backward, layer, c.streams().mp, c.work(0).mp(Collective::AllGather)),
          {own}, {d_rows});
  }
  Op o = c.op(OpKind::Embedding, Phase::Backward, layer, c.streams().compute, c.end_work().embedding(Phase::Backward));
  o.gradients = c.embedding_gradients();
  c.add(o, {d_rows, tokens}, {c.dense_gradients()});
}

TensorId embedding_forward(StepContext& c, SavedEnds& saved) {
  saved.tokens_first = saved.tokens_last = add_tokens(c);
  return look_up(c, 0, saved.tokens_first);
}

void embedding_backward(StepContext& c, TensorId d_input, const SavedEnds& saved) {
  look_up_backward(c, 0, d_input, saved.tokens_first);
}

void predict_forward(StepContext& c, int layer, TensorId output, TensorId tokens, SavedHead& saved) {
  saved.output = output;
  norm_output(c, layer, saved);
  gather_head_input(c, layer, saved);
  saved.logits = c.activation(TensorKind::Logits, layer, c.volumes(0).sequence_tokens * c.ends().words);
  c.hold_copies(saved.logits, Bytes(c.experiment().framework.logits_copies));
  c.add(c.op(OpKind::OutputHead, Phase::Forward, layer, c.streams().compute, c.end_work().head(Phase::Forward)),
        {saved.input, c.end_weights().head}, {saved.logits});
  add_loss(c, layer, tokens, saved.logits);
}

TensorId logits_backward(StepContext& c, int layer, SavedHead saved) {
  const LayerVolumes& v = c.volumes(0);
  const bool norms = c.recomputes(Recompute::Norms);
  if (norms || c.recomputes(Recompute::MpGather)) {
    const Recomputation again(c, c.last_writer(saved.logits));
    if (norms) norm_output(c, layer, saved);
    gather_head_input(c, layer, saved);
  }
  TensorId d_normed = c.activation(TensorKind::HeadInput, layer, v.sequence_tokens * v.hidden, /*gradient=*/true);
  Op o = c.op(OpKind::OutputHead, Phase::Backward, layer, c.streams().compute, c.end_work().head(Phase::Backward));
  o.gradients = c.ends().share_weights() ? c.embedding_gradients() : c.head_gradients();
  c.add(o, {saved.logits, saved.input, c.end_weights().head}, {c.dense_gradients(), d_normed});
  if (c.model_parallel()) {
    const TensorId own = d_normed;
    d_normed = c.activation(TensorKind::NormedInput, layer, v.tokens * v.hidden, /*gradient=*/true);
    sum_tokens(c, Phase::Backward, layer, own, d_normed);
  }
  return d_normed;
}

TensorId output_backward(StepContext& c, int layer, const SavedHead& saved, TensorId d_normed, TensorId past) {
  if (past.exists()) {
    const TensorId own = d_normed;
    d_normed = c.activation(TensorKind::NormedInput, layer, c.elements_of(saved.output), /*gradient=*/true);
    c.add(c.op(OpKind::Residual, Phase::Backward, layer, c.streams().compute, c.work(0).residual(2)), {own, past},
          {d_normed});
  }
  return norm_output_backward(c, layer, saved, d_normed);
}

void head_forward(StepContext& c, TensorId output, SavedEnds& saved) {
  if (!c.is_here(saved.tokens_first)) saved.tokens_last = add_tokens(c);
  predict_forward(c, c.layers(), output, saved.tokens_last, saved.head);
}

}  // namespace dovetail::builder

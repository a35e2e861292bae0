#include "models/schedule/builder/ends_part.hpp"

#include <array>

#include "models/schedule/builder/gather_tokens.hpp"
#include "models/schedule/builder/norm_part.hpp"
#include "models/schedule/loss_statistics.hpp"

namespace dovetail::builder {
namespace {

TensorId add_tokens(StepContext& c) {
  return c.persistent(TensorKind::Tokens, 0, 2 * c.volumes(0).sequence_tokens);
}

void add_collective(StepContext& c, OpKind kind, Phase phase, int layer, Collective collective, TensorId from,
                    TensorId to) {
  c.add(c.op(kind, phase, layer, c.streams().intra, c.work(0).mp(collective)), {from}, {to});
}

void add_loss(StepContext& c, TensorId tokens, TensorId logits) {
  const std::int64_t rows = c.volumes(0).sequence_tokens;
  const StreamId compute = c.streams().compute;
  const int layer = c.layers();
  TensorId of_rows = c.fp32(TensorKind::LossStatistics, layer, loss_statistics * rows);
  c.add(c.op(OpKind::LossStatistics, Phase::Forward, layer, compute, c.end_work().statistics()), {logits, tokens},
        {of_rows});
  if (c.mp_gathers()) {
    const TensorId own = of_rows;
    of_rows = c.fp32(TensorKind::GatheredStatistics, layer, c.groups().mp * loss_statistics * rows);
    c.add(c.op(OpKind::GatherStatistics, Phase::Forward, layer, c.streams().intra,
               c.end_work().gather_statistics(c.elements_of(of_rows))),
          {own}, {of_rows});
  }
  TensorIds reads{of_rows, tokens}, writes{c.fp32(TensorKind::Loss, layer, rows)};
  for (TensorIds* ids : {&reads, &writes})
    if (c.training()) ids->push_back(logits);
  c.add(c.op(OpKind::Loss, Phase::Forward, layer, compute, c.end_work().loss(c.training())), reads, writes);
}

// The final norm, of this rank's tokens; and of all model-parallel ranks'.
void norm_output(StepContext& c, SavedEnds& saved) {
  saved.own_head_input = norm_forward(c, c.layers(), saved.output);
}
void gather_head_input(StepContext& c, SavedEnds& saved) {
  saved.head_input = gather_tokens(c, TensorKind::HeadInput, c.layers(), saved.own_head_input);
}

}  // namespace

TensorId embedding_forward(StepContext& c, SavedEnds& saved) {
  const LayerVolumes& v = c.volumes(0);
  saved.tokens_first = saved.tokens_last = add_tokens(c);
  const TensorId input = c.activation(TensorKind::LayerInput, 0, v.tokens * v.hidden);
  const TensorId looked_up =
      c.mp_gathers() ? c.activation(TensorKind::EmbeddingPartial, 0, v.sequence_tokens * v.hidden) : input;
  c.add(c.op(OpKind::Embedding, Phase::Forward, 0, c.streams().compute, c.end_work().embedding(Phase::Forward)),
        {saved.tokens_first, c.end_weights().embedding}, {looked_up});
  if (c.mp_gathers())
    add_collective(c, OpKind::MpReduceScatter, Phase::Forward, 0, Collective::ReduceScatter, looked_up, input);
  return input;
}

void embedding_backward(StepContext& c, TensorId d_input, const SavedEnds& saved) {
  const LayerVolumes& v = c.volumes(0);
  if (c.mp_gathers()) {
    const TensorId own = d_input;
    d_input = c.activation(TensorKind::EmbeddingPartial, 0, v.sequence_tokens * v.hidden, /*gradient=*/true);
    add_collective(c, OpKind::MpReduceScatter, Phase::Backward, 0, Collective::AllGather, own, d_input);
  }
  Op o = c.op(OpKind::Embedding, Phase::Backward, 0, c.streams().compute, c.end_work().embedding(Phase::Backward));
  o.gradients = c.embedding_gradients();
  c.add(o, {d_input, saved.tokens_first}, {c.dense_gradients()});
}

void head_forward(StepContext& c, TensorId output, SavedEnds& saved) {
  const LayerVolumes& v = c.volumes(0);
  if (!c.has_embedding()) saved.tokens_last = add_tokens(c);
  saved.output = output;
  norm_output(c, saved);
  gather_head_input(c, saved);
  saved.logits = c.activation(TensorKind::Logits, c.layers(), v.sequence_tokens * c.ends().words);
  c.add(c.op(OpKind::OutputHead, Phase::Forward, c.layers(), c.streams().compute, c.end_work().head(Phase::Forward)),
        {saved.head_input, c.end_weights().head}, {saved.logits});
  add_loss(c, saved.tokens_last, saved.logits);
}

TensorId head_backward(StepContext& c, SavedEnds saved) {
  const LayerVolumes& v = c.volumes(0);
  const bool norms = c.recomputes(Recompute::Norms);
  if (norms || c.recomputes(Recompute::MpGather)) {
    const Recomputation again(c, c.last_writer(saved.logits));
    if (norms) norm_output(c, saved);
    gather_head_input(c, saved);
  }
  TensorId d_normed = c.activation(TensorKind::HeadInput, c.layers(), v.sequence_tokens * v.hidden, /*gradient=*/true);
  Op o = c.op(OpKind::OutputHead, Phase::Backward, c.layers(), c.streams().compute, c.end_work().head(Phase::Backward));
  o.gradients = c.ends().share_weights() ? c.embedding_gradients() : c.head_gradients();
  c.add(o, {saved.logits, saved.head_input, c.end_weights().head}, {c.dense_gradients(), d_normed});
  if (c.mp_gathers()) {
    const TensorId own = d_normed;
    d_normed = c.activation(TensorKind::NormedInput, c.layers(), v.tokens * v.hidden, /*gradient=*/true);
    add_collective(c, OpKind::MpAllGather, Phase::Backward, c.layers(), Collective::ReduceScatter, own, d_normed);
  }
  return norm_backward(c, c.layers(), saved.output, d_normed, {});
}

}  // namespace dovetail::builder

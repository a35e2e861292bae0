// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/builder/attention_part.hpp"

#include "models/schedule/builder/gather_tokens.hpp"
#include "models/schedule/builder/norm_part.hpp"
#include "models/schedule/op_table.hpp"

namespace dovetail::builder {
namespace {

bool chunked(const StepContext& c, int layer) {
  return c.parts(layer).front().chunk >= 0;
}

bool norms_queries(const StepContext& c, int layer) {
  return c.volumes(layer).query_key_normed > 0;
}

// Latent attention.
bool makes_low_ranks(const StepContext& c) {
  return c.experiment().model.attention.kind == AttentionKind::Latent;
}

// Whether the projections (of latent attention those up) are an op of their own.
bool projects_apart(const StepContext& c, int layer) {
  return chunked(c, layer) || norms_queries(c, layer) || makes_low_ranks(c);
}

// Whether queries, or what recurrences need, are made straight from the input.
bool projects_input(const StepContext& c) {
  const Model& m = c.experiment().model;
  return !makes_low_ranks(c) || m.attention.q_rank == 0 || m.recurrence.layers > 0 ||
         m.attention.gate != OutputGate::None || m.attention.index.heads > 0;
}

std::int64_t projection_elements(const LayerVolumes& v) {
  return v.sequence_tokens * v.projected_width;
}

// Elements of `dense_gradients`: a layer's begin with its attention's, and these with those of projections to low
// ranks.
RowRange attention_gradients_of(const StepContext& c, int layer) {
  const std::int64_t first = c.dense_gradients_of(layer).first;
  return {first, first + c.volumes(layer).attention_parameters};
}
RowRange projection_gradients_of(const StepContext& c, int layer) {
  const LayerVolumes& v = c.volumes(layer);
  const RowRange all = attention_gradients_of(c, layer);
  return {all.first + v.low_rank_parameters(), all.last - v.context_width * v.hidden};
}

bool eager(const StepContext& c) {
  return c.experiment().workload.attention == AttentionKernel::Eager;
}

// The scores of a part's queries, or their gradients.
TensorId scores(StepContext& c, int layer, const TokenPart& part, bool gradient) {
  return c.activation(TensorKind::AttentionScores, layer, part.volumes.score_elements(), gradient, part.chunk);
}

// Makes what the projections read: the norm of the layer's input, of all model-parallel ranks; or the low ranks of
// these.
void norm_input(StepContext& c, int layer, SavedAttention& saved) {
  saved.own_input = c.has_norms() ? norm_forward(c, layer, saved.before_norm) : saved.before_norm;
}
void gather_input(StepContext& c, int layer, SavedAttention& saved) {
  if (projects_input(c)) saved.input = gather_tokens(c, TensorKind::AttentionInput, layer, saved.own_input);
}
void gather_low_ranks(StepContext& c, int layer, SavedAttention& saved) {
  if (makes_low_ranks(c))
    saved.low_ranks =
        gather_tokens(c, TensorKind::GatheredLowRanks, layer, saved.own_low_ranks, c.volumes(layer).low_rank_width);
}

Op projection(StepContext& c, int layer, Phase phase, const Work& work) {
  return c.op(OpKind::Projection, phase, layer, c.streams().compute, work);
}
Work projection_backward(const OpWork& work) {
  return work.projection(Phase::Backward);
}

Op query_key_norm(StepContext& c, int layer, Phase phase) {
  return c.op(OpKind::QueryKeyNorm, phase, layer, c.streams().compute, c.work(layer).query_key_norm(phase));
}

// Sums that a rank's op has made of each token, over all model-parallel ranks.
void sum_over_ranks(StepContext& c, int layer, Phase phase, TensorId sums) {
  c.add(c.op(OpKind::MpAllReduce, phase, layer, c.streams().mp, c.work(layer).sum_over_ranks()), {sums}, {sums});
}

TensorId query_key_sums(StepContext& c, int layer, Phase phase, std::initializer_list<TensorId> reads,
                        std::initializer_list<TensorId> in_place) {
  const TensorId sums = c.fp32(TensorKind::QueryKeySums, layer, 2 * c.volumes(layer).sequence_tokens,
                               /*gradient=*/phase == Phase::Backward);
  TensorIds writes(in_place);
  writes.push_back(sums);
  c.add(c.op(OpKind::QueryKeyNorm, phase, layer, c.streams().compute, c.work(layer).query_key_sums(phase)),
        std::span(reads.begin(), reads.size()), writes);
  sum_over_ranks(c, layer, phase, sums);
  return sums;
}

// `values`: queries, keys and values, or low ranks, in place.
void query_key_norm_forward(StepContext& c, int layer, TensorId values, SavedAttention& saved) {
  const LayerVolumes& v = c.volumes(layer);
  TensorIds reads{values, c.weights(layer).norm};
  if (c.work(layer).sums_over_ranks()) {
    saved.query_key_sums = query_key_sums(c, layer, Phase::Forward, {values}, {});
    reads.insert(reads.begin() + 1, saved.query_key_sums);
  }
  saved.query_key_input = c.activation(TensorKind::QueryKeyInput, layer, v.query_key_normed_elements());
  c.add(query_key_norm(c, layer, Phase::Forward), reads, std::array{saved.query_key_input, values});
}

void query_key_norm_backward(StepContext& c, int layer, const SavedAttention& saved, TensorId d_values) {
  Op o = query_key_norm(c, layer, Phase::Backward);
  o.gradients = c.query_key_norm_gradients_of(layer);
  TensorIds reads{d_values, saved.query_key_input, c.weights(layer).norm};
  if (saved.query_key_sums.exists()) {
    const TensorId sums =
        query_key_sums(c, layer, Phase::Backward, {d_values, saved.query_key_input, c.weights(layer).norm}, {d_values});
    reads.insert(reads.begin() + 2, {saved.query_key_sums, sums});
  }
  c.add(o, reads, std::array{d_values, c.replicated_gradients()});
}

// Each model-parallel rank makes low ranks of its own tokens.
void make_low_ranks(StepContext& c, int layer, SavedAttention& saved) {
  if (!makes_low_ranks(c)) return;
  const LayerVolumes& v = c.volumes(layer);
  saved.own_low_ranks = c.activation(TensorKind::LowRanks, layer, v.tokens * v.low_rank_width);
  c.add(projection(c, layer, Phase::Forward, c.work(layer).down_projection(Phase::Forward)),
        {saved.own_input, c.weights(layer).dense}, {saved.own_low_ranks});
  if (norms_queries(c, layer)) query_key_norm_forward(c, layer, saved.own_low_ranks, saved);
}

// Queries, keys and values of all tokens.
void project(StepContext& c, int layer, SavedAttention& saved) {
  TensorIds reads;
  if (projects_input(c)) reads.push_back(saved.input);
  if (makes_low_ranks(c)) reads.push_back(saved.low_ranks);
  reads.push_back(c.weights(layer).dense);
  c.add(projection(c, layer, Phase::Forward, c.work(layer).projection(Phase::Forward)), reads,
        {&saved.query_key_value, 1});
}

// The work of an attention op whose projections are an op of their own: launches_of() counts the small kernels of these
// with attention that is not in chunks.
KernelWork without_projections(KernelWork work, const TokenPart& part, Phase phase) {
  if (part.chunk < 0) work.elsewhere = entry_of(OpKind::Projection).small.of(phase);
  return work;
}

void add_state(StepContext& c, int layer, SavedAttention& saved) {
  const LayerVolumes& v = c.volumes(layer);
  saved.context = c.activation(TensorKind::AttentionContext, layer, v.sequence_tokens * v.context_width);
  saved.softmax = eager(c) ? c.activation(TensorKind::AttentionProbabilities, layer, v.score_elements())
                           : c.fp32(TensorKind::LogSumExp, layer, v.log_sums());
  if (eager(c)) c.hold_copies(saved.softmax, Bytes(c.experiment().framework.score_copies));
}

}  // namespace

void attention_start(StepContext& c, int layer, TensorId x, SavedAttention& saved) {
  saved.before_norm = x;
  norm_input(c, layer, saved);
  make_low_ranks(c, layer, saved);
  gather_input(c, layer, saved);
  gather_low_ranks(c, layer, saved);
  saved.query_key_value = c.activation(TensorKind::QueryKeyValue, layer, projection_elements(c.volumes(layer)));
  add_state(c, layer, saved);
  if (!projects_apart(c, layer)) return;
  project(c, layer, saved);
  if (norms_queries(c, layer) && !makes_low_ranks(c)) query_key_norm_forward(c, layer, saved.query_key_value, saved);
}

void recompute_attention_input(StepContext& c, int layer, OpId begin, SavedAttention& saved) {
  const bool norms = c.has_norms() && c.recomputes(Recompute::Norms);
  if (!norms && !c.recomputes(Recompute::MpGather)) return;
  const Recomputation again(c, begin);
  if (norms) norm_input(c, layer, saved);
  gather_input(c, layer, saved);
  if (c.recomputes(Recompute::MpGather)) gather_low_ranks(c, layer, saved);
}

void recompute_up_projections(StepContext& c, int layer, OpId begin, SavedAttention& saved) {
  if (!c.recomputes(Recompute::UpProjections) || c.is_recomputed(saved.query_key_value)) return;
  const Recomputation again(c, begin);
  saved.query_key_value = c.activation(TensorKind::QueryKeyValue, layer, projection_elements(c.volumes(layer)));
  project(c, layer, saved);
}

void recompute_core_attention(StepContext& c, int layer, const TokenPart& part, OpId begin, SavedAttention& saved) {
  if (!c.recomputes(Recompute::Attention)) return;
  const Recomputation again(c, begin);
  if (!c.is_recomputed(saved.context)) add_state(c, layer, saved);
  const KernelWork work = without_projections(c.work(part).core_attention(), part, Phase::Forward);
  TensorIds writes{saved.context, saved.softmax};
  if (eager(c)) writes.push_back(scores(c, layer, part, /*gradient=*/false));
  c.add(c.part_op(OpKind::Attention, Phase::Forward, layer, part, work), {&saved.query_key_value, 1}, writes);
}

TensorId attention_forward(StepContext& c, int layer, const TokenPart& part, const SavedAttention& saved) {
  const LayerVolumes& v = part.volumes;
  const OpWork work = c.work(part);
  const TensorId weights = c.weights(layer).dense;
  const TensorId partial =
      c.activation(TensorKind::AttentionPartial, layer, v.sequence_tokens * v.hidden, false, part.chunk);
  const bool projects = !projects_apart(c, layer);
  TensorIds writes{saved.context, saved.softmax};
  if (projects) writes.insert(writes.begin(), saved.query_key_value);
  if (eager(c)) writes.push_back(scores(c, layer, part, /*gradient=*/false));
  writes.push_back(partial);
  c.add(c.part_op(OpKind::Attention, Phase::Forward, layer, part,
                  projects ? work.attention(Phase::Forward)
                           : without_projections(work.attention_chunk(Phase::Forward), part, Phase::Forward)),
        std::array{projects ? saved.input : saved.query_key_value, weights}, writes);
  if (!c.model_parallel()) return partial;
  const TensorId output = c.activation(TensorKind::AttentionOutput, layer, v.tokens * v.hidden, false, part.chunk);
  sum_tokens(c, c.part_op({}, Phase::Forward, layer, part, {}), work, partial, output, v.hidden);
  return output;
}

TensorId attention_backward_gather(StepContext& c, int layer, const TokenPart& part, TensorId d_output) {
  if (!c.mp_gathers()) return d_output;
  const LayerVolumes& v = part.volumes;
  const TensorId gathered =
      c.activation(TensorKind::AttentionPartial, layer, v.sequence_tokens * v.hidden, /*gradient=*/true, part.chunk);
  Op gather = c.part_op(OpKind::MpReduceScatter, Phase::Backward, layer, part, c.work(part).mp(Collective::AllGather));
  gather.stream = c.streams().mp;
  c.add(gather, {d_output}, {gathered});
  return gathered;
}

void attention_backward(StepContext& c, int layer, const TokenPart& part, TensorId d_gathered,
                        const SavedAttention& saved, AttentionGradients& d) {
  const LayerVolumes& v = c.volumes(layer);
  const OpWork work = c.work(part);
  const TensorId weights = c.weights(layer).dense;
  Op o = c.part_op(OpKind::Attention, Phase::Backward, layer, part, {});
  o.gradients = attention_gradients_of(c, layer);
  if (!projects_apart(c, layer)) {
    d.input = c.activation(TensorKind::AttentionInput, layer, v.sequence_tokens * v.hidden, /*gradient=*/true);
    TensorIds writes{c.dense_gradients(), d.input};
    if (eager(c)) writes.push_back(scores(c, layer, part, /*gradient=*/true));
    c.add_backward(
        o, work, [](const OpWork& w) { return w.attention(Phase::Backward); },
        std::array{d_gathered, saved.input, saved.query_key_value, saved.context, saved.softmax, weights}, writes);
    return;
  }
  // The first part overwrites the gradients of queries, keys, values and the output's projection; the others add.
  o.gradients.first = o.gradients.last - v.context_width * v.hidden;
  TensorIds reads{d_gathered, saved.query_key_value, saved.context, saved.softmax, weights};
  if (part.chunk <= 0)
    d.query_key_value = c.activation(TensorKind::QueryKeyValue, layer, projection_elements(v), /*gradient=*/true);
  else
    reads.push_back(d.query_key_value);
  TensorIds writes{c.dense_gradients(), d.query_key_value};
  if (eager(c)) writes.push_back(scores(c, layer, part, /*gradient=*/true));
  const auto make = [&](const OpWork& w) {
    return without_projections(w.attention_chunk(Phase::Backward), part, Phase::Backward);
  };
  c.add_backward(o, work, make, reads, writes);
}

namespace {

// From the gradient of all model-parallel ranks' tokens, of which each has a part, to that of the own ones.
TensorId own_sums(StepContext& c, int layer, TensorId d_tokens, TensorKind kind, std::int64_t width) {
  const TensorId sum = c.activation(kind, layer, c.volumes(layer).tokens * width,
                                    /*gradient=*/kind == TensorKind::LowRanks);
  sum_tokens(c, c.op({}, Phase::Backward, layer, c.streams().mp, {}), c.work(layer), d_tokens, sum, width);
  return sum;
}

TensorId own_input_sums(StepContext& c, int layer, TensorId d_input) {
  if (!c.model_parallel()) return d_input;
  return own_sums(c, layer, d_input, TensorKind::AttentionSumGradient, c.volumes(layer).hidden);
}

// Returns the gradient of the low ranks of this rank's tokens; that of what queries are made from straight is d.input.
TensorId up_projection_backward(StepContext& c, int layer, const SavedAttention& saved, AttentionGradients& d) {
  const LayerVolumes& v = c.volumes(layer);
  const TensorKind kind = c.model_parallel() ? TensorKind::GatheredLowRanks : TensorKind::LowRanks;
  const TensorId d_low_ranks = c.activation(kind, layer, v.sequence_tokens * v.low_rank_width, /*gradient=*/true);
  TensorIds reads{d.query_key_value, saved.low_ranks, c.weights(layer).dense}, writes{c.dense_gradients(), d_low_ranks};
  if (projects_input(c)) {
    d.input = c.activation(TensorKind::AttentionInput, layer, v.sequence_tokens * v.hidden, /*gradient=*/true);
    reads.insert(reads.begin() + 1, saved.input);
    writes.push_back(d.input);
  }
  Op o = projection(c, layer, Phase::Backward, {});
  o.gradients = projection_gradients_of(c, layer);
  c.add_backward(o, c.work(layer), projection_backward, reads, writes);
  if (projects_input(c)) d.input = own_input_sums(c, layer, d.input);
  return c.model_parallel() ? own_sums(c, layer, d_low_ranks, TensorKind::LowRanks, v.low_rank_width) : d_low_ranks;
}

// Adds to what came straight through queries, if these have no low rank.
void down_projection_backward(StepContext& c, int layer, const SavedAttention& saved, TensorId d_low_ranks,
                              AttentionGradients& d) {
  const LayerVolumes& v = c.volumes(layer);
  TensorIds reads{d_low_ranks, saved.own_input, c.weights(layer).dense};
  if (projects_input(c))
    reads.push_back(d.input);
  else
    d.input = c.mp_gathers() ? c.activation(TensorKind::AttentionSumGradient, layer, v.tokens * v.hidden)
                             : c.activation(TensorKind::AttentionInput, layer, v.tokens * v.hidden, /*gradient=*/true);
  Op o = projection(c, layer, Phase::Backward, {});
  o.gradients = attention_gradients_of(c, layer);
  o.gradients.last = o.gradients.first + v.low_rank_parameters();
  const auto make = [](const OpWork& w) { return w.down_projection(Phase::Backward); };
  c.add_backward(o, c.work(layer), make, reads, std::array{c.dense_gradients(), d.input});
}

}  // namespace

TensorId attention_backward_finish(StepContext& c, int layer, const SavedAttention& saved, AttentionGradients& d) {
  const LayerVolumes& v = c.volumes(layer);
  if (makes_low_ranks(c)) {
    const TensorId d_low_ranks = up_projection_backward(c, layer, saved, d);
    if (norms_queries(c, layer)) query_key_norm_backward(c, layer, saved, d_low_ranks);
    down_projection_backward(c, layer, saved, d_low_ranks, d);
    return d.input;
  }
  if (norms_queries(c, layer)) query_key_norm_backward(c, layer, saved, d.query_key_value);
  if (projects_apart(c, layer)) {
    d.input = c.activation(TensorKind::AttentionInput, layer, v.sequence_tokens * v.hidden, /*gradient=*/true);
    Op o = projection(c, layer, Phase::Backward, {});
    o.gradients = projection_gradients_of(c, layer);
    c.add_backward(o, c.work(layer), projection_backward,
                   std::array{d.query_key_value, saved.input, c.weights(layer).dense},
                   std::array{c.dense_gradients(), d.input});
  }
  return own_input_sums(c, layer, d.input);
}

}  // namespace dovetail::builder

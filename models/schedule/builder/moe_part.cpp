// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/builder/moe_part.hpp"

#include <algorithm>

#include "models/schedule/builder/chunks.hpp"
#include "models/schedule/builder/exchange.hpp"
#include "models/schedule/builder/norm_part.hpp"
#include "models/schedule/builder/row_counts.hpp"

namespace dovetail::builder {
namespace {

std::size_t index(const TokenPart& part) {
  return part.chunk < 0 ? 0 : static_cast<std::size_t>(part.chunk);
}

// Fp32 elements of a gate's scratch, read off Fairseq's (fairseq/modules/moe/top2gate.py, commit 26d62ae): for each of
// k > 1 choices its own combine weights; the mask as bytes; the places of each choice in its expert as ones and zeros,
// 8-byte integers and the same as fp32; and in a narrower format than fp32 the combine weights once more. The mask in
// the format of rows takes over the memory of the choices' own.
std::int64_t scratch_elements(const StepContext& c, const LayerVolumes& v) {
  const std::int64_t choices = v.routing_entries / v.tokens, entries = v.dense_weights();
  const auto row = static_cast<std::int64_t>(size_of(c.experiment().workload.dtype).value());
  const std::int64_t own = choices > 1 ? choices * 4 * entries : 0;
  const std::int64_t places = choices * v.tokens * v.capacity * (8 + 4);
  const std::int64_t again = row < 4 ? row * entries : 0;
  return (std::max<std::int64_t>(own - row * entries, 0) + entries + places + again + 3) / 4;
}

// Routing of a soft gate is dense alone, of a dense encoding both, else sparse.
TensorIds add_routing(StepContext& c, int layer, const TokenPart& part, SavedMoe& saved) {
  const LayerVolumes& v = part.volumes;
  TensorId routing, weights, mask, scratch;
  if (v.routing_entries > 0) routing = c.fp32(TensorKind::Routing, layer, 3 * v.routing_entries, false, part.chunk);
  if (c.plan().encoding == Encoding::Dense) {
    weights = c.fp32(TensorKind::CombineWeights, layer, v.dense_weights(), false, part.chunk);
    mask = c.activation(TensorKind::RoutingMask, layer, v.dense_weights(), false, part.chunk);
    if (c.experiment().workload.gate.token_choice())
      scratch = c.fp32(TensorKind::GateScratch, layer, scratch_elements(c, v), false, part.chunk);
  }
  saved.routing.push_back(routing);
  saved.weights.push_back(weights);
  saved.mask.push_back(mask);
  TensorIds added;
  for (TensorId id : {routing, weights, mask, scratch})
    if (id >= 0) added.push_back(id);
  return added;
}

// The tensors that tell encode and decode which rows go where.
TensorId encode_by(const SavedMoe& saved, const TokenPart& part) {
  const TensorId mask = saved.mask[index(part)];
  return mask >= 0 ? mask : saved.routing[index(part)];
}
TensorId decode_by(const SavedMoe& saved, const TokenPart& part) {
  const TensorId weights = saved.weights[index(part)];
  return weights >= 0 ? weights : saved.routing[index(part)];
}

// The rows that came back to a part's tokens.
TensorIds combined_of(const SavedMoe& saved, const TokenPart& part) {
  if (part.chunk < 0) return saved.combined;
  return {saved.combined[index(part)]};
}

// The expert chunks that a part's tokens take rows of, as ops without work: its own, or all.
std::vector<Op> chunks_of_part(const StepContext& c, OpKind kind, Phase phase, int layer, const TokenPart& part) {
  const StreamId compute = c.streams().compute;
  if (part.chunk >= 0) return {c.chunk_op(kind, phase, layer, compute, part.chunk, part.slots, {})};
  const std::vector<ChunkRange> ranges = chunks_of(c, phase, layer);
  std::vector<Op> chunks;
  chunks.reserve(ranges.size());
  for (const ChunkRange& chunk : ranges)
    chunks.push_back(c.chunk_op(kind, phase, layer, compute, static_cast<int>(chunks.size()), chunk, {}));
  return chunks;
}

TensorIds chunk_tensors(StepContext& c, TensorKind kind, const std::vector<Op>& chunks) {
  TensorIds tensors;
  tensors.reserve(chunks.size());
  for (const Op& chunk : chunks)
    tensors.push_back(c.chunked(kind, chunk, c.volumes(chunk.layer).all_to_all_elements(chunk_of(chunk))));
  return tensors;
}

void compress_all(StepContext& c, const std::vector<Op>& chunks, TensorIds& tensors) {
  for (std::size_t i = 0; i < chunks.size(); ++i) tensors[i] = compress(c, chunks[i], tensors[i]);
}

void append(TensorIds& to, const TensorIds& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// The tensor that a part's gate looks at.
TensorId gate_input(const StepContext& c, const TokenPart& part, const SavedMoe& saved) {
  return (c.has_norms() ? saved.normed : saved.input)[index(part)];
}

// The rows of a part's tokens, from what its gate has looked at.
TensorIds to_chunks(StepContext& c, int layer, const TokenPart& part, TensorId input, SavedMoe& saved) {
  const std::vector<Op> chunks = chunks_of_part(c, OpKind::Dispatch, Phase::Forward, layer, part);
  TensorIds encoded = chunk_tensors(c, TensorKind::Encoded, chunks), writes = encoded;
  const TensorIds shadows = shadow_rows(c, Phase::Forward, layer, TensorKind::ShadowInput);
  for (std::size_t i = 0; i < shadows.size(); ++i)
    saved.shadows.push_back({.expert = c.plan().shadowed_experts[i], .input = shadows[i]});
  if (c.plan().scores_at == ScoresAt::Experts)
    for (const Op& chunk : chunks) {
      saved.experts.scores.push_back(c.row_scores(TensorKind::EncodedScores, chunk));
      writes.push_back(saved.experts.scores.back());
    }
  append(writes, shadows);
  c.add(c.part_op(OpKind::Encode, Phase::Forward, layer, part, c.work(part).encode(Phase::Forward)),
        std::array{input, encode_by(saved, part)}, writes);
  compress_all(c, chunks, encoded);
  return encoded;
}

}  // namespace

TensorIds encode_forward(StepContext& c, int layer, const TokenPart& part, TensorId x, TensorId attended,
                         SavedMoe& saved) {
  const LayerVolumes& v = part.volumes;
  const OpWork work = c.work(part);
  TensorId input = c.activation(TensorKind::MoeInput, layer, v.tokens * v.hidden, false, part.chunk);
  c.hold_mask(input);
  if (v.latent_kept() > 0)
    c.hold_copies(input, static_cast<double>(v.latent_kept()) / static_cast<double>(v.hidden) *
                             size_of(c.experiment().workload.dtype));
  saved.input.push_back(input);
  const TensorId counts = add_row_counts(c, layer);
  TensorIds gate_reads{x, attended}, gate_writes{input};
  if (c.has_norms()) {  // else the gate adds up what it looks at
    Op sum = c.part_op(OpKind::Residual, Phase::Forward, layer, part, work.residual(2));
    c.add(sum, gate_reads, gate_writes);
    input = norm_forward(c, layer, part, input);
    saved.normed.push_back(input);
    gate_reads = {input};
    gate_writes.clear();
  }
  gate_reads.push_back(c.weights(layer).router);
  append(gate_writes, add_routing(c, layer, part, saved));
  if (counts.exists()) gate_writes.push_back(counts);
  c.add(c.part_op(OpKind::Gate, Phase::Forward, layer, part, work.gate(Phase::Forward)), gate_reads, gate_writes);
  exchange_counts(c, layer, counts, saved.routing.back());
  return to_chunks(c, layer, part, input, saved);
}

TensorIds encode_again(StepContext& c, int layer, const TokenPart& part, SavedMoe& saved) {
  const TensorId input = gate_input(c, part, saved);
  const TensorId counts = add_row_counts(c, layer);
  TensorIds routing = add_routing(c, layer, part, saved);
  if (counts.exists()) routing.push_back(counts);
  c.add(c.part_op(OpKind::Gate, Phase::Forward, layer, part, c.work(part).gate(Phase::Forward, /*from_sum=*/true)),
        std::array{input, c.weights(layer).router}, routing);
  exchange_counts(c, layer, counts, saved.routing.back());
  return to_chunks(c, layer, part, input, saved);
}

void recompute_normed(StepContext& c, int layer, const TokenPart& part, OpId begin, SavedMoe& saved) {
  if (!c.has_norms() || !c.recomputes(Recompute::Norms)) return;
  TensorId& normed = saved.normed[index(part)];
  if (c.is_recomputed(normed)) return;
  const Recomputation again(c, begin);
  normed = norm_forward(c, layer, part, saved.input[index(part)]);
}

void receive_rows(StepContext& c, int layer, const TokenPart& part, const TensorIds& combined, SavedMoe& saved) {
  const std::vector<Op> chunks = chunks_of_part(c, OpKind::Combine, Phase::Forward, layer, part);
  for (std::size_t i = 0; i < chunks.size(); ++i)
    saved.combined.push_back(decompress(c, chunks[i], combined[i], TensorKind::Combined));
  for (const SavedShadow& shadow : saved.shadows) saved.combined.push_back(shadow.output);
}

void decode_forward(StepContext& c, int layer, const TokenPart& part, TensorId output, const SavedMoe& saved) {
  TensorIds reads{saved.input[index(part)], decode_by(saved, part)};
  append(reads, combined_of(saved, part));
  c.add(c.part_op(OpKind::Decode, Phase::Forward, layer, part, c.work(part).decode(Phase::Forward)), reads,
        {&output, 1});
}

DecodeGradients decode_backward(StepContext& c, int layer, const TokenPart& part, const TensorIds& gradient,
                                const SavedMoe& saved) {
  const LayerVolumes& v = part.volumes;
  DecodeGradients d;
  d.output = c.activation(TensorKind::OutputGradient, layer, v.tokens * v.hidden, false, part.chunk);
  d.score = saved.weights[index(part)] >= 0
                ? c.fp32(TensorKind::CombineWeights, layer, v.dense_weights(), true, part.chunk)
                : c.fp32(TensorKind::ScoreGradient, layer, v.routing_entries, false, part.chunk);
  TensorIds reads = gradient, writes{d.output};
  reads.push_back(decode_by(saved, part));
  if (c.plan().scores_at == ScoresAt::Decode) {
    append(reads, combined_of(saved, part));
    writes.push_back(d.score);
  }
  const std::vector<Op> chunks = chunks_of_part(c, OpKind::Combine, Phase::Backward, layer, part);
  d.combined = chunk_tensors(c, TensorKind::Combined, chunks);
  d.shadows = shadow_rows(c, Phase::Backward, layer, TensorKind::ShadowOutput);
  append(writes, d.combined);
  append(writes, d.shadows);
  c.add(c.part_op(OpKind::Decode, Phase::Backward, layer, part, c.work(part).decode(Phase::Backward)), reads, writes);
  compress_all(c, chunks, d.combined);
  return d;
}

TensorId encode_backward(StepContext& c, int layer, const TokenPart& part, const DecodeGradients& decoded,
                         const BroughtRows& d_encoded, const TensorIds& d_shadows, const SavedMoe& saved) {
  const LayerVolumes& v = part.volumes;
  const OpWork work = c.work(part);
  const TensorId routing = saved.routing[index(part)];
  const TensorId input = gate_input(c, part, saved);
  const TensorId d_input = c.activation(c.has_norms() ? TensorKind::NormedMoeInput : TensorKind::MoeInput, layer,
                                        v.tokens * v.hidden, true, part.chunk);
  TensorIds reads{encode_by(saved, part)}, writes{d_input}, gate_reads{decoded.score};
  if (!c.has_norms()) gate_reads.insert(gate_reads.begin(), decoded.output);
  if (routing < 0) {  // soft: what a slot takes of a token has a gradient too
    reads.push_back(input);
    writes.push_back(c.activation(TensorKind::RoutingMask, layer, v.dense_weights(), true, part.chunk));
    gate_reads.push_back(writes.back());
  } else {
    gate_reads.push_back(routing);
  }
  const std::vector<Op> chunks = chunks_of_part(c, OpKind::Dispatch, Phase::Backward, layer, part);
  for (std::size_t j = 0; j < chunks.size(); ++j)
    reads.push_back(decompress(c, chunks[j], d_encoded.rows[j], TensorKind::Encoded));
  if (c.plan().scores_at == ScoresAt::Experts) {
    append(reads, d_encoded.d_scores);
    writes.push_back(decoded.score);
  }
  append(reads, d_shadows);
  c.add(c.part_op(OpKind::Encode, Phase::Backward, layer, part, work.encode(Phase::Backward)), reads, writes);
  // Each part adds to the router's gradient; the first one overwrites it.
  const TensorId router_gradient = c.has_norms() ? c.replicated_gradients() : c.weights(layer).router_gradient;
  append(gate_reads, {input, c.weights(layer).router, d_input});
  if (part.chunk > 0 && !c.has_norms()) gate_reads.push_back(router_gradient);
  Op gate = c.part_op(OpKind::Gate, Phase::Backward, layer, part, work.gate(Phase::Backward));
  if (c.has_norms()) {
    gate.gradients = c.replicated_gradients_of(layer);
    gate.gradients.first += v.norm_parameters;
  }
  c.add(gate, gate_reads, std::array{d_input, router_gradient});
  return d_input;
}

}  // namespace dovetail::builder

#include "models/builder/moe_part.hpp"

#include "models/builder/chunks.hpp"

namespace dovetail::builder {
namespace {

// A tensor for the rows of each chunk, as encode or decode of `phase` writes them.
TensorIds chunked_rows(StepContext& c, OpKind op, Phase phase, int layer, TensorKind kind) {
  TensorIds rows;
  for (const ChunkRange& range : chunks_of(c, phase, layer)) {
    const Op chunk = c.chunk_op(op, phase, layer, c.streams().compute, static_cast<int>(rows.size()), range, {});
    rows.push_back(c.chunked(kind, chunk, c.volumes(layer).all_to_all_elements(range)));
  }
  return rows;
}

void append(TensorIds& to, const TensorIds& more) {
  to.insert(to.end(), more.begin(), more.end());
}

}  // namespace

TensorId moe_forward(StepContext& c, int layer, TensorId x, TensorId attended, SavedMoe& saved) {
  const LayerVolumes& v = c.volumes(layer);
  const OpWork work = c.work(layer);
  const StreamId compute = c.streams().compute;
  saved.input = c.activation(TensorKind::MoeInput, layer, v.tokens * v.hidden);
  saved.routing = c.fp32(TensorKind::Routing, layer, 3 * v.tokens * c.experiment().workload.top_k);
  c.add(c.op(OpKind::Gate, Phase::Forward, layer, compute, work.gate(Phase::Forward)),
        {x, attended, c.weights(layer).router}, {saved.input, saved.routing});

  const Op encode = c.op(OpKind::Encode, Phase::Forward, layer, compute, work.encode(Phase::Forward));
  const TensorIds encoded = chunked_rows(c, OpKind::Encode, Phase::Forward, layer, TensorKind::Encoded);
  const TensorIds shadow_inputs = shadow_rows(c, Phase::Forward, layer, TensorKind::ShadowInput);
  TensorIds writes = encoded;
  append(writes, shadow_inputs);
  c.add(encode, std::array{saved.input, saved.routing}, writes);
  const TensorIds shadow_outputs = shadows_forward(c, layer, shadow_inputs, saved.shadows);
  saved.combined = experts_forward(c, layer, encoded, saved.experts);
  append(saved.combined, shadow_outputs);

  TensorIds reads{saved.input, saved.routing};
  append(reads, saved.combined);
  const TensorId output = c.activation(TensorKind::LayerInput, layer + 1, v.tokens * v.hidden);
  c.add(c.op(OpKind::Decode, Phase::Forward, layer, compute, work.decode(Phase::Forward)), reads, {&output, 1});
  return output;
}

TensorId moe_backward(StepContext& c, int layer, const TensorIds& gradient, const SavedMoe& saved,
                      const std::function<void()>& after_sends) {
  const LayerVolumes& v = c.volumes(layer);
  const OpWork work = c.work(layer);
  const StreamId compute = c.streams().compute;
  const TensorId output_gradient = c.activation(TensorKind::OutputGradient, layer, v.tokens * v.hidden);
  const TensorId score_gradient = c.fp32(TensorKind::ScoreGradient, layer, v.tokens * c.experiment().workload.top_k);
  TensorIds reads = gradient, writes{output_gradient, score_gradient};
  reads.push_back(saved.routing);
  append(reads, saved.combined);
  const TensorIds d_combined = chunked_rows(c, OpKind::Decode, Phase::Backward, layer, TensorKind::Combined);
  const TensorIds d_shadow_outputs = shadow_rows(c, Phase::Backward, layer, TensorKind::ShadowOutput);
  append(writes, d_combined);
  append(writes, d_shadow_outputs);
  c.add(c.op(OpKind::Decode, Phase::Backward, layer, compute, work.decode(Phase::Backward)), reads, writes);

  TensorIds shadow_gradients, encode_reads{saved.routing};
  const TensorIds d_shadow_inputs = shadows_backward(c, layer, d_shadow_outputs, saved.shadows, shadow_gradients);
  append(encode_reads, experts_backward(c, layer, d_combined, saved.experts, after_sends));
  append(encode_reads, d_shadow_inputs);
  return_shadow_gradients(c, layer, shadow_gradients);
  const TensorId d_input = c.activation(TensorKind::MoeInput, layer, v.tokens * v.hidden, true);
  c.add(c.op(OpKind::Encode, Phase::Backward, layer, compute, work.encode(Phase::Backward)), encode_reads,
        {&d_input, 1});
  c.add(c.op(OpKind::Gate, Phase::Backward, layer, compute, work.gate(Phase::Backward)),
        {output_gradient, score_gradient, saved.routing, saved.input, c.weights(layer).router, d_input},
        {d_input, c.weights(layer).router_gradient});
  return d_input;
}

}  // namespace dovetail::builder

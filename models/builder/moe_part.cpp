#include "models/builder/moe_part.hpp"

namespace dovetail::builder {
namespace {

// Routing of a soft gate is dense alone, of a dense encoding both, else sparse.
TensorIds add_routing(StepContext& c, int layer, SavedMoe& saved) {
  const LayerVolumes& v = c.volumes(layer);
  TensorIds added;
  if (v.routing_entries > 0) added.push_back(saved.routing = c.fp32(TensorKind::Routing, layer, 3 * v.routing_entries));
  if (c.plan().encoding == Encoding::Dense) {
    added.push_back(saved.weights = c.fp32(TensorKind::CombineWeights, layer, v.dense_weights()));
    added.push_back(saved.mask = c.activation(TensorKind::RoutingMask, layer, v.dense_weights()));
  }
  return added;
}

// What encode goes by, and decode.
TensorId encode_by(const SavedMoe& saved) {
  return saved.mask >= 0 ? saved.mask : saved.routing;
}
TensorId decode_by(const SavedMoe& saved) {
  return saved.weights >= 0 ? saved.weights : saved.routing;
}

// From the chunks' gradients to d_moe_input, through encode and gate.
TensorId encode_and_gate_backward(StepContext& c, int layer, const SavedMoe& saved, const TensorIds& d_encoded,
                                  TensorId output_gradient, TensorId score_gradient) {
  const LayerVolumes& v = c.volumes(layer);
  const OpWork work = c.work(layer);
  const bool soft = saved.routing < 0;
  const TensorId d_input = c.activation(TensorKind::MoeInput, layer, v.tokens * v.hidden, true);
  TensorIds encode_reads{encode_by(saved)}, encode_writes{d_input}, gate_reads{output_gradient, score_gradient};
  if (soft) {
    encode_reads.push_back(saved.input);
    encode_writes.push_back(c.activation(TensorKind::RoutingMask, layer, v.dense_weights(), true));
    gate_reads.push_back(encode_writes.back());
  } else {
    gate_reads.push_back(saved.routing);
  }
  encode_reads.insert(encode_reads.end(), d_encoded.begin(), d_encoded.end());
  c.add(c.op(OpKind::Encode, Phase::Backward, layer, c.streams().compute, work.encode(Phase::Backward)), encode_reads,
        encode_writes);
  gate_reads.insert(gate_reads.end(), {saved.input, c.weights(layer).router, d_input});
  c.add(c.op(OpKind::Gate, Phase::Backward, layer, c.streams().compute, work.gate(Phase::Backward)), gate_reads,
        TensorIds{d_input, c.weights(layer).router_gradient});
  return d_input;
}

}  // namespace

TensorId moe_forward(StepContext& c, int layer, TensorId x, TensorId attended, SavedMoe& saved) {
  const LayerVolumes& v = c.volumes(layer);
  const OpWork work = c.work(layer);
  const StreamId compute = c.streams().compute;
  const int degree = c.plan().forward_degree;
  saved.input = c.activation(TensorKind::MoeInput, layer, v.tokens * v.hidden);
  TensorIds gate_writes = add_routing(c, layer, saved);
  gate_writes.insert(gate_writes.begin(), saved.input);
  c.add(c.op(OpKind::Gate, Phase::Forward, layer, compute, work.gate(Phase::Forward)),
        TensorIds{x, attended, c.weights(layer).router}, gate_writes);

  const Op encode = c.op(OpKind::Encode, Phase::Forward, layer, compute, work.encode(Phase::Forward));
  TensorIds encoded;
  for (int i = 0; i < degree; ++i) {
    const RowRange rows = chunk_rows(v.capacity, degree, i);
    const Op chunk = c.chunk_op(OpKind::Encode, Phase::Forward, layer, compute, i, rows, {});
    encoded.push_back(c.chunked(TensorKind::Encoded, chunk, v.all_to_all_elements(rows.size())));
  }
  c.add(encode, TensorIds{saved.input, encode_by(saved)}, encoded);
  saved.combined = experts_forward(c, layer, encoded, saved.experts);

  TensorIds reads{saved.input, decode_by(saved)};
  reads.insert(reads.end(), saved.combined.begin(), saved.combined.end());
  const TensorId output = c.activation(TensorKind::LayerInput, layer + 1, v.tokens * v.hidden);
  c.add(c.op(OpKind::Decode, Phase::Forward, layer, compute, work.decode(Phase::Forward)), reads, {&output, 1});
  return output;
}

TensorId moe_backward(StepContext& c, int layer, const TensorIds& gradient, const SavedMoe& saved,
                      const std::function<void()>& after_sends) {
  const LayerVolumes& v = c.volumes(layer);
  const OpWork work = c.work(layer);
  const StreamId compute = c.streams().compute;
  const int degree = c.plan().backward_degree_of(layer);
  const TensorId output_gradient = c.activation(TensorKind::OutputGradient, layer, v.tokens * v.hidden);
  const TensorId score_gradient = saved.weights >= 0
                                      ? c.fp32(TensorKind::CombineWeights, layer, v.dense_weights(), true)
                                      : c.fp32(TensorKind::ScoreGradient, layer, v.routing_entries);
  TensorIds reads = gradient, writes{output_gradient, score_gradient}, d_combined;
  reads.push_back(decode_by(saved));
  reads.insert(reads.end(), saved.combined.begin(), saved.combined.end());
  for (int j = 0; j < degree; ++j) {
    const RowRange rows = chunk_rows(v.capacity, degree, j);
    const Op chunk = c.chunk_op(OpKind::Decode, Phase::Backward, layer, compute, j, rows, {});
    d_combined.push_back(c.chunked(TensorKind::Combined, chunk, v.all_to_all_elements(rows.size())));
  }
  writes.insert(writes.end(), d_combined.begin(), d_combined.end());
  c.add(c.op(OpKind::Decode, Phase::Backward, layer, compute, work.decode(Phase::Backward)), reads, writes);

  const TensorIds d_encoded = experts_backward(c, layer, d_combined, saved.experts, after_sends);
  return encode_and_gate_backward(c, layer, saved, d_encoded, output_gradient, score_gradient);
}

}  // namespace dovetail::builder

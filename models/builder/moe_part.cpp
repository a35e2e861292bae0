#include "models/builder/moe_part.hpp"

namespace dovetail::builder {

TensorId moe_forward(StepContext& c, int layer, TensorId x, TensorId attended, SavedMoe& saved) {
  const LayerVolumes& v = c.volumes(layer);
  const OpWork work = c.work(layer);
  const StreamId compute = c.streams().compute;
  const int degree = c.plan().forward_degree;
  saved.input = c.activation(TensorKind::MoeInput, layer, v.tokens * v.hidden);
  saved.routing = c.fp32(TensorKind::Routing, layer, 3 * v.tokens * c.experiment().workload.top_k);
  c.add(c.op(OpKind::Gate, Phase::Forward, layer, compute, work.gate(Phase::Forward)),
        {x, attended, c.weights(layer).router}, {saved.input, saved.routing});

  const Op encode = c.op(OpKind::Encode, Phase::Forward, layer, compute, work.encode(Phase::Forward));
  TensorIds encoded;
  for (int i = 0; i < degree; ++i) {
    const RowRange rows = chunk_rows(v.capacity, degree, i);
    const Op chunk = c.chunk_op(OpKind::Encode, Phase::Forward, layer, compute, i, rows, {});
    encoded.push_back(c.chunked(TensorKind::Encoded, chunk, v.all_to_all_elements(rows.size())));
  }
  c.add(encode, std::array{saved.input, saved.routing}, encoded);
  saved.combined = experts_forward(c, layer, encoded, saved.experts);

  TensorIds reads{saved.input, saved.routing};
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
  const TensorId score_gradient = c.fp32(TensorKind::ScoreGradient, layer, v.tokens * c.experiment().workload.top_k);
  TensorIds reads = gradient, writes{output_gradient, score_gradient}, d_combined;
  reads.push_back(saved.routing);
  reads.insert(reads.end(), saved.combined.begin(), saved.combined.end());
  for (int j = 0; j < degree; ++j) {
    const RowRange rows = chunk_rows(v.capacity, degree, j);
    const Op chunk = c.chunk_op(OpKind::Decode, Phase::Backward, layer, compute, j, rows, {});
    d_combined.push_back(c.chunked(TensorKind::Combined, chunk, v.all_to_all_elements(rows.size())));
  }
  writes.insert(writes.end(), d_combined.begin(), d_combined.end());
  c.add(c.op(OpKind::Decode, Phase::Backward, layer, compute, work.decode(Phase::Backward)), reads, writes);

  TensorIds encode_reads = experts_backward(c, layer, d_combined, saved.experts, after_sends);
  encode_reads.insert(encode_reads.begin(), saved.routing);
  const TensorId d_input = c.activation(TensorKind::MoeInput, layer, v.tokens * v.hidden, true);
  c.add(c.op(OpKind::Encode, Phase::Backward, layer, compute, work.encode(Phase::Backward)), encode_reads,
        {&d_input, 1});
  c.add(c.op(OpKind::Gate, Phase::Backward, layer, compute, work.gate(Phase::Backward)),
        {output_gradient, score_gradient, saved.routing, saved.input, c.weights(layer).router, d_input},
        {d_input, c.weights(layer).router_gradient});
  return d_input;
}

}  // namespace dovetail::builder

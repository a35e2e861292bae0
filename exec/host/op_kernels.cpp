// SPDX-License-Identifier: Apache-2.0
#include "exec/host/op_kernels.hpp"

#include <algorithm>
#include <functional>

#include "exec/host/clipping.hpp"
#include "exec/host/expert_ops.hpp"
#include "exec/host/latent_projections.hpp"
#include "exec/host/mtp_projection.hpp"
#include "exec/host/op_matrices.hpp"
#include "exec/host/query_key_norm.hpp"
#include "exec/step/wire_format.hpp"
#include "models/base/errors.hpp"
#include "models/schedule/op_work.hpp"
#include "models/schedule/shards.hpp"

namespace dovetail::exec {
namespace {

template <class Item, class Scalar>
std::vector<Chunk<Item>> chunks(const OpContext<Scalar>& c, const std::vector<TensorId>& ids) {
  std::vector<Chunk<Item>> all;
  for (TensorId id : ids) {
    const Tensor& t = c.tensor(id);
    all.push_back({t.rows, c.data(id), t.peers, t.expert});
  }
  return all;
}
template <class Scalar>
std::vector<Chunk<const Scalar>> read_chunks(const OpContext<Scalar>& c, Role role) {
  return chunks<const Scalar>(c, c.all_reads(role));
}
template <class Scalar>
std::vector<Chunk<Scalar>> write_chunks(const OpContext<Scalar>& c, Role role) {
  return chunks<Scalar>(c, c.all_writes(role));
}

template <class Scalar>
Matrix<Scalar> projections(const OpContext<Scalar>& c, TensorId id) {
  return matrix(c, id, c.shape.sequence_tokens(), c.shape.projected_width());
}

// As the attention takes them in and gives their gradient.
template <class Scalar>
Matrix<const Scalar> attention_input(const OpContext<Scalar>& c) {
  return read_matrix(c, roles::attention_input, c.shape.sequence_tokens(), c.shape.hidden);
}
template <class Scalar>
Matrix<Scalar> d_attention_input(const OpContext<Scalar>& c) {
  return write_matrix(c, gradient_of(TensorKind::AttentionInput), c.shape.sequence_tokens(), c.shape.hidden);
}

template <class Scalar>
void forward_projection(OpContext<Scalar>& c) {
  if (c.find_write(TensorKind::LowRanks).exists()) return forward_down_projection(c);
  if (c.shape.makes_low_ranks()) return forward_up_projection(c);
  projection_forward<Scalar>(c.shape, c.rows, attention_input(c), {c.shape, dense_weights(c)},
                             projections(c, c.write_id(TensorKind::QueryKeyValue)));
}

// All tokens together are projected first; a chunk reads what a projection op has written.
template <class Scalar>
void forward_attention(OpContext<Scalar>& c) {
  const LayerShape& s = c.shape;
  const std::int64_t tokens = s.sequence_tokens();
  const bool projects = c.find_write(TensorKind::QueryKeyValue).exists();
  if (projects) forward_projection(c);
  const TensorId projected = projects ? c.write_id(TensorKind::QueryKeyValue) : c.read_id(TensorKind::QueryKeyValue);
  const AttentionState<Scalar> state{projections(c, projected),
                                     write_matrix(c, TensorKind::AttentionContext, tokens, s.context_width()),
                                     write_matrix(c, TensorKind::LogSumExp, tokens, s.heads)};
  if (!c.find_write(TensorKind::AttentionPartial).exists()) return core_attention<Scalar>(s, c.part.positions, state);
  attention_forward<Scalar>(
      s, c.part.positions, {s, dense_weights(c)}, state,
      write_matrix(c, TensorKind::AttentionPartial, s.samples * c.part.positions.size(), s.hidden));
}

// In an op in halves, that of the inputs leaves the gradients of the projections' results to that of the weights.
template <class Scalar>
Matrix<Scalar> d_projections(const OpContext<Scalar>& c) {
  const Role role = gradient_of(TensorKind::QueryKeyValue);
  return projections(c, c.op.half == Half::Weights ? c.read_id(role) : c.write_id(role));
}

// Adds to the gradients of the projections' weights; as far as the op has that half, as below.
template <class Scalar>
void project_backward(OpContext<Scalar>& c, Matrix<Scalar> d_projected) {
  const Half half = c.op.half;
  projection_backward<Scalar>(c.shape, c.rows, d_projected,
                              half == Half::Inputs ? Matrix<const Scalar>() : attention_input(c),
                              {c.shape, dense_weights(c)}, {c.shape, dense_gradients(c)},
                              half == Half::Weights ? Matrix<Scalar>() : d_attention_input(c), half);
}

template <class Scalar>
void backward_attention_of_part(OpContext<Scalar>& c, Matrix<Scalar> d_projected, Matrix<Scalar> d_output_weights) {
  const LayerShape& s = c.shape;
  const std::int64_t tokens = s.sequence_tokens();
  const auto d_partial = read_matrix(c, roles::d_attention_partial, s.samples * c.part.positions.size(), s.hidden);
  AttentionState<const Scalar> state;
  if (c.op.half != Half::Inputs)
    state.context = read_matrix(c, TensorKind::AttentionContext, tokens, s.context_width());
  if (c.op.half != Half::Weights) {
    state.query_key_value = projections(c, c.read_id(TensorKind::QueryKeyValue));
    state.log_sum_exp = read_matrix(c, TensorKind::LogSumExp, tokens, s.heads);
    if (c.part.chunk <= 0) std::fill_n(d_projected.data, d_projected.rows * d_projected.cols, Scalar(0));
  }
  attention_backward<Scalar>(s, c.part.positions, d_partial, state, {s, dense_weights(c)}, d_projected,
                             d_output_weights, c.op.half);
}

template <class Scalar>
void backward_attention(OpContext<Scalar>& c) {
  const LayerShape& s = c.shape;
  const Half half = c.op.half;
  const bool projects = half == Half::Inputs ? c.find_write(gradient_of(TensorKind::AttentionInput)).exists()
                                             : c.find_read(roles::attention_input).exists();
  if (!projects)
    return backward_attention_of_part<Scalar>(c, half == Half::Weights ? Matrix<Scalar>() : d_projections(c),
                                              {dense_gradients(c), s.context_width(), s.hidden});
  std::vector<Scalar> memory;
  if (half == Half::Both) memory.resize(static_cast<std::size_t>(s.sequence_tokens() * s.projected_width()));
  const Matrix<Scalar> d_projected =
      half == Half::Both ? Matrix<Scalar>(memory.data(), s.sequence_tokens(), s.projected_width()) : d_projections(c);
  backward_attention_of_part<Scalar>(c, d_projected, DenseWeights<Scalar>(s, dense_gradients(c)).output);
  project_backward<Scalar>(c, d_projected);
}

template <class Scalar>
void backward_projection(OpContext<Scalar>& c) {
  if (c.find_read(gradient_of(TensorKind::LowRanks)).exists()) return backward_down_projection(c);
  if (c.shape.makes_low_ranks()) return backward_up_projection(c);
  project_backward<Scalar>(c, projections(c, c.read_id(gradient_of(TensorKind::QueryKeyValue))));
}

template <class Scalar>
const Scalar* read_router(const OpContext<Scalar>& c) {
  check(c.read_tensor(TensorKind::RouterWeights).elements == c.shape.router_parameters,
        "router weights of another gate");
  return c.read(TensorKind::RouterWeights);
}

template <class Scalar>
void add_to(Matrix<Scalar> sum, const Scalar* summand) {
  std::transform(sum.data, sum.data + sum.rows * sum.cols, summand, sum.data, std::plus());
}

template <class Scalar>
TokenPlace place_of(const OpContext<Scalar>& c) {
  return {c.op.layer, c.group * c.shape.rank_tokens + c.part.tokens.first};
}

template <class Scalar>
void forward_gate(OpContext<Scalar>& c) {
  const auto find = [&](TensorKind kind) { return c.data(c.find_write(kind)); };
  Matrix<const Scalar> input;
  if (c.find_read(roles::moe_input).exists()) {
    input = read_tokens(c, roles::moe_input);
  } else {
    const Matrix<Scalar> sum = write_tokens(c, TensorKind::MoeInput);
    const Scalar* const attended = read_tokens(c, roles::attended).data;
    std::transform(attended, attended + sum.rows * sum.cols, read_tokens(c, TensorKind::LayerInput).data, sum.data,
                   std::plus());
    input = sum;
    c.call_amid();
  }
  gate_forward<Scalar>(c.shape, input, read_router(c), place_of(c), preset_of_part(c),
                       {find(TensorKind::Routing), find(TensorKind::CombineWeights), find(TensorKind::RoutingMask)});
  if (Scalar* const counts = find(TensorKind::RowCounts); counts != nullptr)
    count_rows<Scalar>(c.shape, find(TensorKind::Routing), counts);
}

template <class Scalar>
void backward_gate(OpContext<Scalar>& c) {
  const auto find = [&](Role role) { return c.data(c.find_read(role)); };
  const GateWeights<const Scalar> gradient{find(TensorKind::ScoreGradient),
                                           find(gradient_of(TensorKind::CombineWeights)),
                                           find(gradient_of(TensorKind::RoutingMask))};
  const Matrix<Scalar> d_input = write_tokens(c, gradient_of(roles::moe_input));
  if (const TensorId past = c.find_read(TensorKind::OutputGradient); past.exists())
    add_to(d_input, tokens(c, past).data);
  // A gradient that is a tensor of its own has an empty range.
  gate_backward<Scalar>(c.shape, gradient, find(TensorKind::Routing),
                        {read_tokens(c, roles::moe_input), read_router(c), place_of(c)}, d_input,
                        c.write(roles::router_gradient) + c.op.gradients.first);
}

template <class Scalar>
void forward_encode(OpContext<Scalar>& c) {
  const auto encode =
      c.find_read(TensorKind::RoutingMask).exists() ? dense_encode_forward<Scalar> : encode_forward<Scalar>;
  encode(c.shape, read_tokens(c, roles::moe_input), c.read(roles::encoding),
         write_chunks(c, TensorKind::Encoded | TensorKind::ShadowInput));
  if (c.schedule.scores_at == ScoresAt::Experts)
    encode_scores<Scalar>(c.shape, c.read(TensorKind::Routing), write_chunks(c, TensorKind::EncodedScores));
}

template <class Scalar>
void backward_encode(OpContext<Scalar>& c) {
  const std::vector<Chunk<const Scalar>> d_encoded = read_chunks(c, gradient_of(roles::expert_input));
  const Matrix<Scalar> d_input = write_tokens(c, gradient_of(roles::moe_input));
  if (c.schedule.scores_at == ScoresAt::Experts)
    score_gradients<Scalar>(c.shape, c.read(TensorKind::Routing), read_chunks(c, gradient_of(roles::row_scores)),
                            c.write(TensorKind::ScoreGradient));
  if (!c.find_read(TensorKind::RoutingMask).exists())
    return encode_backward<Scalar>(c.shape, c.read(TensorKind::Routing), d_encoded, d_input);
  const bool soft = c.find_read(roles::moe_input).exists();
  dense_encode_backward<Scalar>(c.shape, soft ? read_tokens(c, roles::moe_input) : Matrix<const Scalar>(),
                                c.read(TensorKind::RoutingMask), d_encoded, d_input,
                                c.data(c.find_write(gradient_of(TensorKind::RoutingMask))));
}

template <class Scalar>
void forward_decode(OpContext<Scalar>& c) {
  const Matrix<const Scalar> input = read_tokens(c, TensorKind::MoeInput);
  const Matrix<Scalar> output = write_tokens(c, TensorKind::LayerInput);
  const std::vector<Chunk<const Scalar>> rows = read_chunks(c, roles::to_decode);
  if (const TensorId weights = c.find_read(TensorKind::CombineWeights); weights.exists())
    return dense_decode_forward<Scalar>(c.shape, input, c.data(weights), rows, output);
  decode_forward<Scalar>(c.shape, input, c.read(TensorKind::Routing), c.schedule.scores_at, rows, output);
}

// The gradient from above has one part for the last layer, else two.
template <class Scalar>
void backward_decode(OpContext<Scalar>& c) {
  std::vector<Matrix<const Scalar>> gradients;
  for (TensorId id : c.all_reads(roles::d_output)) gradients.push_back(tokens(c, id));
  const Matrix<Scalar> d_output = write_tokens(c, TensorKind::OutputGradient);
  add_up<Scalar>(gradients, d_output);
  c.call_amid();
  const auto decode =
      c.find_read(TensorKind::CombineWeights).exists() ? dense_decode_backward<Scalar> : decode_backward<Scalar>;
  decode(c.shape, d_output, c.read(roles::decoding), read_chunks(c, roles::to_decode),
         c.data(c.find_write(roles::d_scores)),
         write_chunks(c, gradient_of(TensorKind::Combined | TensorKind::ShadowOutput)));
}

template <class Scalar>
void copy(OpContext<Scalar>& c) {
  const std::int64_t count = c.write_tensor(roles::kept).elements;
  check(c.read_tensor(roles::kept).elements == count, "a copy of another size");
  std::copy_n(c.read(roles::kept), count, c.write(roles::kept));
}

// The format is that of the compressed rows.
template <class Scalar>
void convert(OpContext<Scalar>& c, const Tensor& compressed, const Scalar* from, Scalar* to,
             void (*rows)(Wire, std::int64_t, std::int64_t, const Scalar*, Scalar*)) {
  const Wire wire = compressed.dtype == DType::Bf16 ? Wire::Bf16 : Wire::Fp8;
  rows(wire, compressed.elements / wire_row_elements(wire, c.shape.hidden), c.shape.hidden, from, to);
}
template <class Scalar>
void compress(OpContext<Scalar>& c) {
  convert(c, c.write_tensor(roles::compressed), c.read(roles::rows), c.write(roles::compressed), compress_rows<Scalar>);
}
template <class Scalar>
void decompress(OpContext<Scalar>& c) {
  convert(c, c.read_tensor(roles::compressed), c.read(roles::compressed), c.write(roles::rows),
          decompress_rows<Scalar>);
}

// No work: its dependencies have already done the waiting.
template <class Scalar>
void host_sync(OpContext<Scalar>&) {}

template <class Scalar>
LayerShape ffn_shape(const OpContext<Scalar>& c) {
  return ffn_shape(c.shape, parameters_before_projection(c));
}

template <class Scalar>
void forward_dense_ffn(OpContext<Scalar>& c) {
  const LayerShape s = ffn_shape(c);
  expert_forward<Scalar>(s, {{0, s.sequence_tokens()}, c.read(roles::ffn_input)},
                         dense_weights(c) + s.dense_parameters(), c.write(TensorKind::FfnHidden),
                         c.write(TensorKind::FfnPartial), c.data(c.find_write(TensorKind::FfnActivated)));
}

template <class Scalar>
void backward_dense_ffn(OpContext<Scalar>& c) {
  const LayerShape s = ffn_shape(c);
  const Half half = c.op.half;
  const RowRange all{0, s.sequence_tokens()};
  const KeptChunk<Scalar> kept{{all, c.data(c.find_read(roles::ffn_input))},
                               c.read(TensorKind::FfnHidden),
                               c.data(c.find_read(TensorKind::FfnActivated))};
  const Role d_hidden = gradient_of(TensorKind::FfnHidden);
  std::vector<Scalar> memory;
  if (half == Half::Both) memory.resize(static_cast<std::size_t>(s.sequence_tokens() * s.hidden_width()));
  const ExpertGradients<Scalar> gradients{dense_gradients(c), c.data(c.find_write(gradient_of(TensorKind::FfnInput))),
                                          half == Half::Both      ? memory.data()
                                          : half == Half::Weights ? c.data(c.read_id(d_hidden))
                                                                  : c.write(d_hidden)};
  const Scalar* const weights = dense_weights(c);
  expert_backward<Scalar>(s, {all, c.read(roles::d_ffn_partial)},
                          weights == nullptr ? nullptr : weights + s.dense_parameters(), {&kept, 1}, gradients, half);
}

// Gradients of weights that another stage has too.
template <class Scalar>
void add_shared_gradients(OpContext<Scalar>& c) {
  const Scalar* from = c.read(TensorKind::SharedGradient);
  for (const auto& [id, range] : exchanged_ranges(c.schedule, c.op, c.rank)) {
    add_to(Matrix<Scalar>(c.data(id) + range.first, 1, range.size()), from);
    from += range.size();
  }
}

// The result may be the first of the parts.
template <class Scalar>
void residual(OpContext<Scalar>& c) {
  if (c.find_read(TensorKind::SharedGradient).exists()) return add_shared_gradients(c);
  const Matrix<Scalar> sum = tokens(c, c.result());
  bool first = true;
  for (TensorId part : c.reads()) {
    const Scalar* const from = tokens(c, part).data;
    if (!first)
      add_to(sum, from);
    else if (from != sum.data)
      std::copy_n(from, sum.rows * sum.cols, sum.data);
    first = false;
  }
}

template <class Scalar>
void update(OpContext<Scalar>& c) {
  const UpdatedParts parts = updated_parts(c, c.rank);
  check(c.write_tensor(TensorKind::OptimizerState).elements >= 2 * parts.total,
        "an optimizer state too small for two moments");
  Scalar* const mean = c.write(TensorKind::OptimizerState);
  for (const UpdatedPart& part : parts.all)
    for_clipped(c, c.data(part.gradient.tensor) + part.gradient.first, part.elements.size(),
                [&](std::int64_t first, std::span<const Scalar> gradients) {
                  Scalar* const state = mean + part.state + first;
                  adam_step<Scalar>(std::ssize(gradients), gradients.data(), c.training_step,
                                    c.data(part.weights) + part.elements.first + first, state, state + parts.total);
                });
}

// The rows of a part of the gradient, whichever tokens these are.
template <class Scalar>
const Scalar* tokens_of_any_part(const OpContext<Scalar>& c, TensorId id) {
  return c.part.chunk < 0 ? c.data(id) : tokens(c, id).data;
}

template <class Scalar>
RankWords<Scalar> words_of(const OpContext<Scalar>& c) {
  const WordShare share = word_share(c);
  return {c.read(TensorKind::Tokens), c.rows, c.shape.sequence, c.depth, share.first, share.count, share.ranks};
}

template <class Scalar>
NormRow<Scalar> norm_weights(const OpContext<Scalar>& c) {
  return {c.read(TensorKind::NormWeights) + first_norm_weight(c), c.shape.hidden};
}

// (T, M), the half of multi-token prediction's input that a norm of it makes.
template <class Scalar>
Matrix<Scalar> half_of_input(const OpContext<Scalar>& c, TensorId id) {
  const std::int64_t half = input_half(c) * c.shape.hidden;
  return matrix(c, id, c.shape.tokens, 2 * c.shape.hidden).cols_from(half, c.shape.hidden);
}

template <class Scalar>
void forward_norm(OpContext<Scalar>& c) {
  if (c.find_write(TensorKind::MtpInput).exists())
    return norm_forward<Scalar>(norm_weights(c), read_tokens(c, roles::before_mtp_norm),
                                half_of_input(c, c.write_id(TensorKind::MtpInput)));
  norm_forward<Scalar>(norm_weights(c), read_tokens(c, roles::before_norm), write_tokens(c, roles::normed));
}

template <class Scalar>
void backward_norm(OpContext<Scalar>& c) {
  if (const TensorId d_input = c.find_read(gradient_of(TensorKind::MtpInput)); d_input.exists())
    return norm_backward<Scalar>(norm_weights(c), read_tokens(c, roles::before_mtp_norm), half_of_input(c, d_input),
                                 write_tokens(c, gradient_of(roles::before_mtp_norm)),
                                 c.write(TensorKind::ReplicatedGradients) + c.op.gradients.first);
  const Matrix<Scalar> d_x = write_tokens(c, gradient_of(roles::before_norm));
  norm_backward<Scalar>(norm_weights(c), read_tokens(c, roles::before_norm), read_tokens(c, roles::d_normed), d_x,
                        c.write(TensorKind::ReplicatedGradients) + c.op.gradients.first);
  Scalar* to = d_x.data;  // chunks of tokens follow one another
  for (TensorId past : c.all_reads(roles::past_norm)) {
    const std::int64_t count = std::min(c.tensor(past).elements, d_x.rows * d_x.cols);
    add_to(Matrix<Scalar>(to, 1, count), tokens_of_any_part(c, past));
    to += count;
  }
}

template <class Scalar>
void forward_embedding(OpContext<Scalar>& c) {
  const TensorId rows = c.result();
  embedding_forward<Scalar>(words_of(c), c.read(TensorKind::EmbeddingWeights),
                            matrix(c, rows, c.shape.sequence_tokens(), c.shape.hidden));
}

template <class Scalar>
void backward_embedding(OpContext<Scalar>& c) {
  embedding_backward<Scalar>(words_of(c), matrix(c, c.source(), c.shape.sequence_tokens(), c.shape.hidden),
                             dense_gradients(c));
}

template <class Scalar>
Matrix<const Scalar> head_input(const OpContext<Scalar>& c) {
  return read_matrix(c, roles::head_input, c.shape.sequence_tokens(), c.shape.hidden);
}
template <class Scalar>
Matrix<Scalar> logits(const OpContext<Scalar>& c, TensorId id) {
  return matrix(c, id, c.shape.sequence_tokens(), c.tensor(id).elements / c.shape.sequence_tokens());
}

template <class Scalar>
void forward_head(OpContext<Scalar>& c) {
  const Matrix<Scalar> to = logits(c, c.result());
  multiply(head_input(c), transposed(read_matrix(c, roles::head_weights, to.cols, c.shape.hidden)), to);
}

template <class Scalar>
void backward_head(OpContext<Scalar>& c) {
  const Matrix<const Scalar> d_logits = logits(c, c.source());
  const Matrix<Scalar> d_weights(dense_gradients(c), d_logits.cols, c.shape.hidden);
  multiply(transposed(d_logits), head_input(c), d_weights, Into::Add);
  multiply(d_logits, read_matrix(c, roles::head_weights, d_logits.cols, c.shape.hidden),
           write_matrix(c, gradient_of(TensorKind::HeadInput), c.shape.sequence_tokens(), c.shape.hidden));
}

template <class Scalar>
void forward_loss_statistics(OpContext<Scalar>& c) {
  loss_statistics_of<Scalar>(words_of(c), logits(c, c.source()), c.write(TensorKind::LossStatistics));
}

template <class Scalar>
void forward_loss(OpContext<Scalar>& c) {
  const TensorId in_place = c.find_write(TensorKind::Logits);
  const std::int64_t of_step = c.shape.sequence_tokens() * c.schedule.groups.dp * c.schedule.micro_batches;
  loss_and_gradient<Scalar>(words_of(c), c.data(c.source()), of_step, c.write(TensorKind::Loss),
                            in_place.exists() ? logits(c, in_place) : Matrix<Scalar>());
}

template <class Scalar>
constexpr auto kernels = std::to_array<KernelEntry<Scalar>>(
    {{OpKind::Projection, forward_projection<Scalar>, backward_projection<Scalar>},
     {OpKind::Attention, forward_attention<Scalar>, backward_attention<Scalar>},
     {OpKind::QueryKeyNorm, forward_query_key_norm<Scalar>, backward_query_key_norm<Scalar>},
     {OpKind::Gate, forward_gate<Scalar>, backward_gate<Scalar>},
     {OpKind::Encode, forward_encode<Scalar>, backward_encode<Scalar>},
     {OpKind::Expert, forward_expert<Scalar>, backward_expert<Scalar>},
     {OpKind::Decode, forward_decode<Scalar>, backward_decode<Scalar>},
     {OpKind::DenseFfn, forward_dense_ffn<Scalar>, backward_dense_ffn<Scalar>},
     {OpKind::Residual, residual<Scalar>, residual<Scalar>},
     {OpKind::Compress, compress<Scalar>, compress<Scalar>},
     {OpKind::Decompress, decompress<Scalar>, decompress<Scalar>},
     {OpKind::HostSync, host_sync<Scalar>, host_sync<Scalar>},
     {OpKind::Offload, copy<Scalar>, nullptr},
     {OpKind::Prefetch, nullptr, copy<Scalar>},
     {OpKind::RestoreHidden, nullptr, restore_hidden<Scalar>},
     {OpKind::Norm, forward_norm<Scalar>, backward_norm<Scalar>},
     {OpKind::Embedding, forward_embedding<Scalar>, backward_embedding<Scalar>},
     {OpKind::MtpProjection, forward_mtp_projection<Scalar>, backward_mtp_projection<Scalar>},
     {OpKind::OutputHead, forward_head<Scalar>, backward_head<Scalar>},
     {OpKind::LossStatistics, forward_loss_statistics<Scalar>, nullptr},
     {OpKind::Loss, forward_loss<Scalar>, nullptr},
     {OpKind::GradientNorm, gradient_norm<Scalar>, gradient_norm<Scalar>},
     {OpKind::Update, update<Scalar>, update<Scalar>}});

}  // namespace

template <class Scalar>
OpKernel<Scalar> kernel_of(const Op& op) {
  const OpKernel<Scalar> kernel = find_kernel<Scalar>(kernels<Scalar>, op);
  if (kernel == nullptr) throw InternalError("no host kernel for " + to_string(op));
  return kernel;
}

template OpKernel<float> kernel_of<float>(const Op&);
template OpKernel<double> kernel_of<double>(const Op&);

}  // namespace dovetail::exec

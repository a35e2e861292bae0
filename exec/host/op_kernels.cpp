#include "exec/host/op_kernels.hpp"

#include <algorithm>
#include <functional>

#include "exec/host/wire_format.hpp"
#include "models/base/errors.hpp"
#include "models/schedule/op_work.hpp"

namespace dovetail::exec {
namespace {

template <class Scalar>
Matrix<const Scalar> read_matrix(const OpContext<Scalar>& c, std::size_t i, std::int64_t rows, std::int64_t cols) {
  check(c.read_tensor(i).elements == rows * cols, "a tensor's size differs from its shape");
  return {c.read(i), rows, cols};
}

template <class Scalar>
Matrix<Scalar> write_matrix(const OpContext<Scalar>& c, std::size_t i, std::int64_t rows, std::int64_t cols) {
  check(c.write_tensor(i).elements == rows * cols, "a tensor's size differs from its shape");
  return {c.write(i), rows, cols};
}

// (T, M), or the rows of the op's part in a tensor of all tokens.
template <class Scalar>
Matrix<const Scalar> read_tokens(const OpContext<Scalar>& c, std::size_t i) {
  if (c.part.chunk < 0 || c.read_tensor(i).chunk >= 0) return read_matrix(c, i, c.shape.tokens, c.shape.hidden);
  return read_matrix(c, i, c.read_tensor(i).elements / c.shape.hidden, c.shape.hidden)
      .rows_from(c.part.tokens.first, c.shape.tokens);
}
template <class Scalar>
Matrix<Scalar> write_tokens(const OpContext<Scalar>& c, std::size_t i) {
  if (c.part.chunk < 0 || c.write_tensor(i).chunk >= 0) return write_matrix(c, i, c.shape.tokens, c.shape.hidden);
  return write_matrix(c, i, c.write_tensor(i).elements / c.shape.hidden, c.shape.hidden)
      .rows_from(c.part.tokens.first, c.shape.tokens);
}

template <class Scalar>
std::vector<Chunk<const Scalar>> read_chunks(const OpContext<Scalar>& c, std::size_t first) {
  std::vector<Chunk<const Scalar>> chunks;
  for (std::size_t i = first; i < c.read_count(); ++i) {
    const Tensor& t = c.read_tensor(i);
    chunks.push_back({t.rows, c.read(i), t.peers, t.expert});
  }
  return chunks;
}
template <class Scalar>
std::vector<Chunk<Scalar>> write_chunks(const OpContext<Scalar>& c, std::size_t first) {
  std::vector<Chunk<Scalar>> chunks;
  for (std::size_t i = first; i < c.write_count(); ++i) {
    const Tensor& t = c.write_tensor(i);
    chunks.push_back({t.rows, c.write(i), t.peers, t.expert});
  }
  return chunks;
}

template <class Scalar>
Matrix<Scalar> write_projections(const OpContext<Scalar>& c, std::size_t i) {
  return write_matrix(c, i, c.shape.sequence_tokens(), c.shape.query_width() + 2 * c.shape.key_width());
}
template <class Scalar>
Matrix<const Scalar> read_projections(const OpContext<Scalar>& c, std::size_t i) {
  return read_matrix(c, i, c.shape.sequence_tokens(), c.shape.query_width() + 2 * c.shape.key_width());
}

template <class Scalar>
void forward_projection(OpContext<Scalar>& c) {
  const LayerShape& s = c.shape;
  projection_forward<Scalar>(s, c.rows, read_matrix(c, 0, s.sequence_tokens(), s.hidden), {s, c.read(1)},
                             write_projections(c, 0));
}

// Of all tokens it projects first; a chunk reads what a projection op has written.
template <class Scalar>
void forward_attention(OpContext<Scalar>& c) {
  const LayerShape& s = c.shape;
  const std::int64_t tokens = s.sequence_tokens();
  const bool projects = c.part.chunk < 0;
  if (projects) forward_projection(c);
  const std::size_t first = projects ? 1 : 0;
  const AttentionState<Scalar> state{projects ? write_projections(c, 0) : read_projections(c, 0),
                                     write_matrix(c, first, tokens, s.query_width()),
                                     write_matrix(c, first + 1, tokens, s.heads)};
  attention_forward<Scalar>(s, c.part.positions, {s, c.read(1)}, state,
                            write_matrix(c, first + 2, s.samples * c.part.positions.size(), s.hidden));
}

template <class Scalar>
void backward_attention_of_part(OpContext<Scalar>& c, std::size_t first, Matrix<Scalar> d_projected,
                                Matrix<Scalar> d_output_weights) {
  const LayerShape& s = c.shape;
  const std::int64_t tokens = s.sequence_tokens();
  const AttentionState<const Scalar> state{read_projections(c, first),
                                           read_matrix(c, first + 1, tokens, s.query_width()),
                                           read_matrix(c, first + 2, tokens, s.heads)};
  if (c.part.chunk <= 0) std::fill_n(d_projected.data, d_projected.rows * d_projected.cols, Scalar(0));
  attention_backward<Scalar>(s, c.part.positions, read_matrix(c, 0, s.samples * c.part.positions.size(), s.hidden),
                             state, {s, c.read(first + 3)}, d_projected, d_output_weights);
}

template <class Scalar>
void backward_attention(OpContext<Scalar>& c) {
  const LayerShape& s = c.shape;
  const std::int64_t tokens = s.sequence_tokens();
  Scalar* const gradients = c.write(0) + c.op.gradients.first;
  if (c.part.chunk >= 0) {
    backward_attention_of_part<Scalar>(c, 1, write_projections(c, 1), {gradients, s.query_width(), s.hidden});
    return;
  }
  std::vector<Scalar> memory(static_cast<std::size_t>(tokens * (s.query_width() + 2 * s.key_width())));
  const Matrix<Scalar> d_projected(memory.data(), tokens, s.query_width() + 2 * s.key_width());
  const DenseWeights<Scalar> d_weights(s, gradients);
  backward_attention_of_part<Scalar>(c, 2, d_projected, d_weights.output);
  projection_backward<Scalar>(s, c.rows, d_projected, read_matrix(c, 1, tokens, s.hidden), {s, c.read(5)}, d_weights,
                              write_matrix(c, 1, tokens, s.hidden));
}

template <class Scalar>
void backward_projection(OpContext<Scalar>& c) {
  const LayerShape& s = c.shape;
  const std::int64_t tokens = s.sequence_tokens();
  projection_backward<Scalar>(s, c.rows, read_projections(c, 0), read_matrix(c, 1, tokens, s.hidden), {s, c.read(2)},
                              {s, c.write(0) + c.op.gradients.first}, write_matrix(c, 1, tokens, s.hidden));
}

// The operand of a kind, or null: routing may be sparse, dense or both.
template <class Scalar>
const Scalar* find_read(const OpContext<Scalar>& c, TensorKind kind, bool gradient = false) {
  for (std::size_t i = 0; i < c.read_count(); ++i)
    if (c.read_tensor(i).kind == kind && c.read_tensor(i).gradient == gradient) return c.read(i);
  return nullptr;
}
template <class Scalar>
Scalar* find_write(const OpContext<Scalar>& c, TensorKind kind, bool gradient = false) {
  for (std::size_t i = 0; i < c.write_count(); ++i)
    if (c.write_tensor(i).kind == kind && c.write_tensor(i).gradient == gradient) return c.write(i);
  return nullptr;
}

template <class Scalar>
const Scalar* read_router(const OpContext<Scalar>& c, std::size_t i) {
  check(c.read_tensor(i).elements == c.shape.router_parameters, "router weights of another gate");
  return c.read(i);
}

template <class Scalar>
TokenPlace place_of(const OpContext<Scalar>& c) {
  return {c.op.layer, c.group * c.shape.rank_tokens + c.part.tokens.first};
}

template <class Scalar>
void forward_gate(OpContext<Scalar>& c) {
  gate_forward<Scalar>(c.shape, read_tokens(c, 0), read_tokens(c, 1), read_router(c, 2), place_of(c), preset_of_part(c),
                       write_tokens(c, 0),
                       {find_write(c, TensorKind::Routing), find_write(c, TensorKind::CombineWeights),
                        find_write(c, TensorKind::RoutingMask)});
}

template <class Scalar>
void backward_gate(OpContext<Scalar>& c) {
  std::size_t last = 0;  // moe_input; router_weights and d_moe_input follow
  while (c.read_tensor(last).kind != TensorKind::MoeInput) ++last;
  const GateWeights<const Scalar> gradient{find_read(c, TensorKind::ScoreGradient),
                                           find_read(c, TensorKind::CombineWeights, true),
                                           find_read(c, TensorKind::RoutingMask, true)};
  gate_backward<Scalar>(c.shape, read_tokens(c, 0), gradient, find_read(c, TensorKind::Routing),
                        {read_tokens(c, last), read_router(c, last + 1), place_of(c)}, write_tokens(c, 0), c.write(1));
}

template <class Scalar>
void forward_encode(OpContext<Scalar>& c) {
  if (c.read_tensor(1).kind == TensorKind::RoutingMask)
    dense_encode_forward<Scalar>(c.shape, read_tokens(c, 0), c.read(1), write_chunks(c, 0));
  else
    encode_forward<Scalar>(c.shape, read_tokens(c, 0), c.read(1), write_chunks(c, 0));
}

template <class Scalar>
void backward_encode(OpContext<Scalar>& c) {
  if (c.read_tensor(0).kind == TensorKind::Routing)
    return encode_backward<Scalar>(c.shape, c.read(0), read_chunks(c, 1), write_tokens(c, 0));
  const bool soft = c.read_tensor(1).kind == TensorKind::MoeInput;
  dense_encode_backward<Scalar>(c.shape, soft ? read_tokens(c, 1) : Matrix<const Scalar>(), c.read(0),
                                read_chunks(c, soft ? 2 : 1), write_tokens(c, 0), soft ? c.write(1) : nullptr);
}

template <class Scalar>
void forward_decode(OpContext<Scalar>& c) {
  if (c.read_tensor(1).kind == TensorKind::CombineWeights)
    dense_decode_forward<Scalar>(c.shape, read_tokens(c, 0), c.read(1), read_chunks(c, 2), write_tokens(c, 0));
  else
    decode_forward<Scalar>(c.shape, read_tokens(c, 0), c.read(1), read_chunks(c, 2), write_tokens(c, 0));
}

// The gradient from above has one part for the last layer, else two.
template <class Scalar>
void backward_decode(OpContext<Scalar>& c) {
  const auto routes = [](TensorKind kind) { return kind == TensorKind::Routing || kind == TensorKind::CombineWeights; };
  std::vector<Matrix<const Scalar>> gradients;
  std::size_t at = 0;
  for (; !routes(c.read_tensor(at).kind); ++at) gradients.push_back(read_tokens(c, at));
  if (c.read_tensor(at).kind == TensorKind::CombineWeights)
    dense_decode_backward<Scalar>(c.shape, gradients, c.read(at), read_chunks(c, at + 1), write_tokens(c, 0),
                                  c.write(1), write_chunks(c, 2));
  else
    decode_backward<Scalar>(c.shape, gradients, c.read(at), read_chunks(c, at + 1), write_tokens(c, 0), c.write(1),
                            write_chunks(c, 2));
}

template <class Scalar>
void forward_expert(OpContext<Scalar>& c) {
  expert_forward<Scalar>(expert_shape(c), {c.op.rows, c.read(0)}, c.read(1), c.write(0), c.write(1));
}

template <class Scalar>
void restore_hidden(OpContext<Scalar>& c) {
  expert_hidden<Scalar>(expert_shape(c), {c.op.rows, c.read(0)}, c.read(1), c.write(0));
}

template <class Scalar>
void copy(OpContext<Scalar>& c) {
  check(c.read_tensor(0).elements == c.write_tensor(0).elements, "a copy of another size");
  std::copy_n(c.read(0), c.read_tensor(0).elements, c.write(0));
}

// Reads 2: the gradient, if it has a value already. After it: the inputs of the forward chunks that share rows with
// this one, then their hidden rows.
template <class Scalar>
void backward_expert(OpContext<Scalar>& c) {
  const TensorId gradient = c.schedule.writes_of(c.op)[0];
  const bool has_value = c.schedule.reads_of(c.op)[2] == gradient;
  if (!has_value) std::fill_n(c.write(0), c.write_tensor(0).elements, Scalar(0));
  const std::size_t first = has_value ? 3 : 2, chunks = (c.read_count() - first) / 2;
  std::vector<KeptChunk<Scalar>> kept;
  for (std::size_t i = first; i < first + chunks; ++i)
    kept.push_back({{c.read_tensor(i).rows, c.read(i)}, c.read(i + chunks)});
  expert_backward<Scalar>(expert_shape(c), {c.op.rows, c.read(0)}, c.read(1), kept,
                          {c.write(0), c.write(1), c.write(2)});
}

// Operands are compressed rows and rows, in the order of the op; the format is that of the compressed ones.
template <class Scalar>
void convert(OpContext<Scalar>& c, const Tensor& compressed,
             void (*rows)(Wire, std::int64_t, std::int64_t, const Scalar*, Scalar*)) {
  const Wire wire = compressed.dtype == DType::Bf16 ? Wire::Bf16 : Wire::Fp8;
  rows(wire, compressed.elements / wire_row_elements(wire, c.shape.hidden), c.shape.hidden, c.read(0), c.write(0));
}
template <class Scalar>
void compress(OpContext<Scalar>& c) {
  convert(c, c.write_tensor(0), compress_rows<Scalar>);
}
template <class Scalar>
void decompress(OpContext<Scalar>& c) {
  convert(c, c.read_tensor(0), decompress_rows<Scalar>);
}

// No work: its dependencies have already done the waiting.
template <class Scalar>
void host_sync(OpContext<Scalar>&) {}

template <class Scalar>
void forward_dense_ffn(OpContext<Scalar>& c) {
  const LayerShape s = ffn_shape(c.shape, c.read_tensor(1).elements);
  expert_forward<Scalar>(s, {{0, s.sequence_tokens()}, c.read(0)}, c.read(1) + s.dense_parameters(), c.write(0),
                         c.write(1));
}

template <class Scalar>
void backward_dense_ffn(OpContext<Scalar>& c) {
  const LayerShape s = ffn_shape(c.shape, c.read_tensor(3).elements);
  const RowRange tokens{0, s.sequence_tokens()}, range = c.op.gradients;
  const KeptChunk<Scalar> kept{{tokens, c.read(1)}, c.read(2)};
  std::vector<Scalar> d_hidden(static_cast<std::size_t>(s.sequence_tokens() * s.hidden_width()));
  expert_backward<Scalar>(s, {tokens, c.read(0)}, c.read(3) + s.dense_parameters(), {&kept, 1},
                          {c.write(0) + range.first, c.write(1), d_hidden.data()});
}

// The result may be the first of the parts.
template <class Scalar>
void residual(OpContext<Scalar>& c) {
  const std::int64_t count = c.write_tensor(0).elements;
  Scalar* const sum = c.write(0);
  if (c.read(0) != sum) std::copy(c.read(0), c.read(0) + count, sum);
  for (std::size_t i = 1; i < c.read_count(); ++i) std::transform(sum, sum + count, c.read(i), sum, std::plus());
}

// Every step of an executor starts from the same weights, so that this is always Adam's first step.
template <class Scalar>
void update(OpContext<Scalar>& c) {
  const std::size_t weights = c.write_count() - 1;
  std::int64_t parameters = 0, done = 0;
  for (std::size_t i = 0; i < weights; ++i) parameters += c.write_tensor(i).elements;
  check(c.write_tensor(weights).elements >= 2 * parameters, "an optimizer state too small for two moments");
  Scalar* const mean = c.write(weights);
  for (std::size_t i = 0; i < weights; ++i) {
    const Tensor& t = c.write_tensor(i);
    const GradientPlace gradient = gradient_of(c, t);
    adam_step<Scalar>(t.elements, c.read(gradient.read) + gradient.first, 1, c.write(i), mean + done,
                      mean + parameters + done);
    done += t.elements;
  }
}

template <class Scalar>
constexpr auto kernels =
    std::to_array<KernelEntry<Scalar>>({{OpKind::Projection, forward_projection<Scalar>, backward_projection<Scalar>},
                                        {OpKind::Attention, forward_attention<Scalar>, backward_attention<Scalar>},
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

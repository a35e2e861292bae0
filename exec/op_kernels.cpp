#include "exec/op_kernels.hpp"

#include <algorithm>
#include <utility>

#include "models/errors.hpp"

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

// (T, M)
template <class Scalar>
Matrix<const Scalar> read_tokens(const OpContext<Scalar>& c, std::size_t i) {
  return read_matrix(c, i, c.shape.tokens, c.shape.hidden);
}
template <class Scalar>
Matrix<Scalar> write_tokens(const OpContext<Scalar>& c, std::size_t i) {
  return write_matrix(c, i, c.shape.tokens, c.shape.hidden);
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
void forward_attention(OpContext<Scalar>& c) {
  const LayerShape& s = c.shape;
  const std::int64_t tokens = s.sequence_tokens();
  const AttentionState<Scalar> state{write_matrix(c, 0, tokens, s.query_width() + 2 * s.key_width()),
                                     write_matrix(c, 1, tokens, s.query_width()), write_matrix(c, 2, tokens, s.heads)};
  attention_forward<Scalar>(s, read_matrix(c, 0, tokens, s.hidden), {s, c.read(1)}, state,
                            write_matrix(c, 3, tokens, s.hidden));
}

template <class Scalar>
void backward_attention(OpContext<Scalar>& c) {
  const LayerShape& s = c.shape;
  const std::int64_t tokens = s.sequence_tokens();
  const AttentionState<const Scalar> state{read_matrix(c, 2, tokens, s.query_width() + 2 * s.key_width()),
                                           read_matrix(c, 3, tokens, s.query_width()),
                                           read_matrix(c, 4, tokens, s.heads)};
  attention_backward<Scalar>(s, read_matrix(c, 0, tokens, s.hidden), read_matrix(c, 1, tokens, s.hidden), state,
                             {s, c.read(5)}, {s, c.write(0) + c.op.rows.first}, write_matrix(c, 1, tokens, s.hidden));
}

template <class Scalar>
void forward_gate(OpContext<Scalar>& c) {
  gate_forward<Scalar>(c.shape, read_tokens(c, 0), read_tokens(c, 1),
                       read_matrix(c, 2, c.shape.hidden, c.shape.experts), c.preset, write_tokens(c, 0), c.write(1));
}

template <class Scalar>
void backward_gate(OpContext<Scalar>& c) {
  const Matrix<const Scalar> router = read_matrix(c, 4, c.shape.hidden, c.shape.experts);
  gate_backward<Scalar>(c.shape, read_tokens(c, 0), c.read(1), c.read(2), {read_tokens(c, 3), router},
                        write_tokens(c, 0), write_matrix(c, 1, c.shape.hidden, c.shape.experts));
}

template <class Scalar>
void forward_encode(OpContext<Scalar>& c) {
  encode_forward<Scalar>(c.shape, read_tokens(c, 0), c.read(1), write_chunks(c, 0));
}

template <class Scalar>
void backward_encode(OpContext<Scalar>& c) {
  encode_backward<Scalar>(c.shape, c.read(0), read_chunks(c, 1), write_tokens(c, 0));
}

template <class Scalar>
void forward_decode(OpContext<Scalar>& c) {
  decode_forward<Scalar>(c.shape, read_tokens(c, 0), c.read(1), read_chunks(c, 2), write_tokens(c, 0));
}

// The gradient from above has one part for the last layer, else two.
template <class Scalar>
void backward_decode(OpContext<Scalar>& c) {
  std::vector<Matrix<const Scalar>> gradients;
  std::size_t at = 0;
  for (; c.read_tensor(at).kind != TensorKind::Routing; ++at) gradients.push_back(read_tokens(c, at));
  decode_backward<Scalar>(c.shape, gradients, c.read(at), read_chunks(c, at + 1), write_tokens(c, 0), c.write(1),
                          write_chunks(c, 2));
}

// What an expert op works on, by its operands 0 (rows) and 1 (weights): all experts here, or one shadowed expert; all
// copies of the rows, or those of a peer group; own shards of the weights, or gathered ones.
template <class Scalar>
LayerShape expert_shape(const OpContext<Scalar>& c) {
  LayerShape s = c.shape;
  if (c.op.expert >= 0) {
    s.local_experts = 1;
    s.placement = {};
  }
  s.row_copies = c.read_tensor(0).elements / (s.positions() * c.op.rows.size() * s.hidden);
  s.weight_shards = c.read_tensor(1).elements / (s.local_experts * s.expert_parameters());
  s.block_gemms = c.op.work.gemm_rows == c.op.rows.size();
  return s;
}

template <class Scalar>
void forward_expert(OpContext<Scalar>& c) {
  expert_forward<Scalar>(expert_shape(c), {c.op.rows, c.read(0)}, c.read(1), c.write(0), c.write(1));
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
  expert_backward<Scalar>(expert_shape(c), {c.op.rows, c.read(0)}, c.read(1), kept, c.write(0), c.write(1));
}

template <class Scalar>
void collective(OpContext<Scalar>& c) {
  const std::int64_t sent = c.read_tensor(0).elements, received = c.write_tensor(0).elements;
  Communicator& communicator = *c.communicator;
  const auto operands = [&](std::int64_t count) { return exchange(c.read(0), c.write(0), count, c.ready); };
  switch (c.op.work.collective) {
    case Collective::AllToAll:
      c.ready = communicator.all_to_all(operands(sent / communicator.size()));
      return;
    case Collective::AllGather:
      c.ready = communicator.all_gather(operands(sent));
      return;
    case Collective::ReduceScatter:
      c.ready = communicator.reduce_scatter(operands(received));
      return;
    case Collective::AllReduce:
      c.ready = communicator.all_reduce(operands(sent));
      return;
    case Collective::Broadcast:
    case Collective::Reduce:
    case Collective::None:
      throw InternalError("a communication op without a collective that any rank may begin");
  }
}

// With split peers: a block for the rank at each offset, from the rank at the same offset the other way; combining
// returns them.
template <class Scalar>
void exchange_rows(OpContext<Scalar>& c) {
  const RowRange offsets = c.op.peers;
  if (offsets.size() == 0) return collective(c);
  Communicator& communicator = *c.communicator;
  const bool to_owners = (c.op.kind == OpKind::Dispatch) == (c.op.phase == Phase::Forward);
  const int size = communicator.size(), own = communicator.rank();
  const std::int64_t count = c.read_tensor(0).elements / offsets.size();
  std::vector<Send> sends;
  std::vector<Receive> receives;
  for (std::int64_t offset = offsets.first; offset < offsets.last; ++offset) {
    const int o = static_cast<int>(offset), after = (own + o) % size, before = (own - o + size) % size;
    const std::int64_t at = (offset - offsets.first) * count;
    sends.push_back({to_owners ? after : before, c.read(0) + at, count});
    receives.push_back({to_owners ? before : after, c.write(0) + at, count});
  }
  c.ready = communicator.send_receive(sends, receives, element_of<Scalar>(), c.ready);
}

// The gathered shards' gradients: each rank adds those of its own shard.
template <class Scalar>
void return_gradient(OpContext<Scalar>& c) {
  const std::int64_t own = c.write_tensor(0).elements;
  std::vector<Scalar> sum(static_cast<std::size_t>(own));
  c.ready = c.communicator->reduce_scatter(exchange(c.read(0), sum.data(), own, c.ready));
  for (std::int64_t i = 0; i < own; ++i) c.write(0)[i] += sum[static_cast<std::size_t>(i)];
}

// Where a shadowed expert's weights are: its owner, and at which element there.
template <class Scalar>
std::pair<int, std::int64_t> shadowed_weights(const OpContext<Scalar>& c) {
  const std::int64_t local = c.shape.local_experts;
  return {static_cast<int>(c.op.expert / local), c.op.expert % local * c.shape.expert_parameters()};
}

template <class Scalar>
void broadcast_shadow(OpContext<Scalar>& c) {
  const auto [owner, at] = shadowed_weights(c);
  c.ready = c.communicator->broadcast(exchange(c.read(0) + at, c.write(0), c.write_tensor(0).elements, c.ready), owner);
}

template <class Scalar>
void return_shadow_gradient(OpContext<Scalar>& c) {
  const auto [owner, at] = shadowed_weights(c);
  const std::int64_t count = c.read_tensor(0).elements;
  std::vector<Scalar> sum(static_cast<std::size_t>(count));
  c.ready = c.communicator->reduce(exchange(c.read(0), sum.data(), count, c.ready), owner);
  if (c.communicator->rank() != owner) return;
  for (std::int64_t i = 0; i < count; ++i) c.write(0)[at + i] += sum[static_cast<std::size_t>(i)];
}

template <class Scalar>
void dense_gradient_all_reduce(OpContext<Scalar>& c) {
  const RowRange part = c.op.rows;
  c.ready = c.communicator->all_reduce(exchange(c.read(0) + part.first, c.write(0) + part.first, part.size(), c.ready));
}

// Where the gradient of a weight tensor lies among the reads of the update.
template <class Scalar>
const Scalar* gradient_of(const OpContext<Scalar>& c, const Tensor& weights) {
  std::int64_t layers = 0;
  for (std::size_t i = 0; i < c.read_count(); ++i) {
    const Tensor& t = c.read_tensor(i);
    if (t.kind == TensorKind::DenseWeights) ++layers;
    if (weights.kind == TensorKind::DenseWeights && t.kind == TensorKind::DenseGradients)
      return c.read(i) + (layers - 1 - weights.layer) * weights.elements;  // last layer first
    const bool matches = (weights.kind == TensorKind::RouterWeights && t.kind == TensorKind::RouterGradient) ||
                         (weights.kind == TensorKind::ExpertWeights && t.kind == TensorKind::ExpertGradient);
    if (matches && t.layer == weights.layer) return c.read(i);
  }
  throw InternalError("weights without a gradient");
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
    adam_step<Scalar>(t.elements, gradient_of(c, t), 1, c.write(i), mean + done, mean + parameters + done);
    done += t.elements;
  }
}

template <class Scalar>
struct Entry {
  OpKind kind;
  OpKernel<Scalar> forward, backward;
};

template <class Scalar>
constexpr std::array<Entry<Scalar>, op_kind_names.size()> kernels{
    {{OpKind::MpAllGather, collective<Scalar>, collective<Scalar>},
     {OpKind::Attention, forward_attention<Scalar>, backward_attention<Scalar>},
     {OpKind::MpReduceScatter, collective<Scalar>, collective<Scalar>},
     {OpKind::Gate, forward_gate<Scalar>, backward_gate<Scalar>},
     {OpKind::Encode, forward_encode<Scalar>, backward_encode<Scalar>},
     {OpKind::Dispatch, exchange_rows<Scalar>, exchange_rows<Scalar>},
     {OpKind::EspAllGather, collective<Scalar>, collective<Scalar>},
     {OpKind::Expert, forward_expert<Scalar>, backward_expert<Scalar>},
     {OpKind::EspReduceScatter, collective<Scalar>, collective<Scalar>},
     {OpKind::Combine, exchange_rows<Scalar>, exchange_rows<Scalar>},
     {OpKind::Decode, forward_decode<Scalar>, backward_decode<Scalar>},
     {OpKind::GatherExpertWeights, collective<Scalar>, return_gradient<Scalar>},
     {OpKind::ShadowWeights, broadcast_shadow<Scalar>, return_shadow_gradient<Scalar>},
     {OpKind::DenseGradientAllReduce, nullptr, dense_gradient_all_reduce<Scalar>},
     {OpKind::ExpertGradientAllReduce, nullptr, collective<Scalar>},
     {OpKind::Update, update<Scalar>, update<Scalar>}}};

}  // namespace

template <class Scalar>
OpKernel<Scalar> kernel_of(const Op& op) {
  for (const Entry<Scalar>& entry : kernels<Scalar>)
    if (entry.kind == op.kind)
      if (OpKernel<Scalar> kernel = op.phase == Phase::Forward ? entry.forward : entry.backward) return kernel;
  throw InternalError("no host kernel for " + to_string(op));
}

template OpKernel<float> kernel_of<float>(const Op&);
template OpKernel<double> kernel_of<double>(const Op&);

}  // namespace dovetail::exec

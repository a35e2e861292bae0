#include <array>
#include <utility>

#include "exec/host/op_kernels.hpp"
#include "exec/transport/run_step.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

// From the tensor read to the first one written, by way of the others.
template <class Scalar>
void collective_steps(OpContext<Scalar>& c) {
  const auto steps = c.schedule.steps_of(c.op);
  check(c.write_count() == steps.size(), "a tensor for the result of each step");
  const Scalar* source = c.read(0);
  std::int64_t elements = c.read_tensor(0).elements;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::size_t result = i + 1 == steps.size() ? 0 : i + 1;
    const StepBuffers<Scalar> buffers{{source, static_cast<std::size_t>(elements)},
                                      {c.write(result), static_cast<std::size_t>(c.write_tensor(result).elements)}};
    c.ready = run_step(steps[i], buffers, *c.communicator, c.ready);
    source = c.write(result);
    elements = c.write_tensor(result).elements;
  }
}

template <class Scalar>
void collective(OpContext<Scalar>& c) {
  if (!c.schedule.steps_of(c.op).empty()) return collective_steps(c);
  const std::int64_t sent = c.read_tensor(0).elements, received = c.write_tensor(0).elements;
  Communicator& communicator = *c.communicator;
  const auto operands = [&](std::int64_t count) { return exchange(c.read(0), c.write(0), count, c.ready); };
  switch (c.op.collective()) {
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
    case Collective::Send:
    case Collective::None:
      throw InternalError("a communication op without a collective that any rank may begin");
  }
}

// Stages send forward in the forward pass, else back: the sum of what is read, where chunks of tokens stand one after
// the other.
template <class Scalar>
void stage_send(OpContext<Scalar>& c) {
  std::vector<Scalar> sum(static_cast<std::size_t>(c.write_tensor(0).elements));
  std::size_t next_chunk = 0;
  for (std::size_t i = 0; i < c.read_count(); ++i) {
    const auto elements = static_cast<std::size_t>(c.read_tensor(i).elements);
    const bool chunk = c.read_tensor(i).chunk >= 0;
    const std::size_t first = chunk ? next_chunk : 0;
    check(first + elements <= sum.size(), "a part larger than the message");
    for (std::size_t at = 0; at < elements; ++at) sum[first + at] += c.read(i)[at];
    if (chunk) next_chunk += elements;
  }
  const int to = c.communicator->rank() + (c.op.phase == Phase::Forward ? 1 : -1);
  c.communicator->post(exchange<Scalar>(sum.data(), nullptr, c.write_tensor(0).elements, c.ready), to,
                       c.schedule.writes_of(c.op)[0]);
}

template <class Scalar>
void stage_receive(OpContext<Scalar>& c) {
  c.ready = c.communicator->take(exchange<Scalar>(nullptr, c.write(0), c.write_tensor(0).elements, c.ready),
                                 c.schedule.writes_of(c.op)[0]);
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

template <class Scalar>
constexpr auto exchange_kernels = std::to_array<KernelEntry<Scalar>>(
    {{OpKind::MpAllGather, collective<Scalar>, collective<Scalar>},
     {OpKind::MpReduceScatter, collective<Scalar>, collective<Scalar>},
     {OpKind::Dispatch, exchange_rows<Scalar>, exchange_rows<Scalar>},
     {OpKind::EspAllGather, collective<Scalar>, collective<Scalar>},
     {OpKind::EspReduceScatter, collective<Scalar>, collective<Scalar>},
     {OpKind::Combine, exchange_rows<Scalar>, exchange_rows<Scalar>},
     {OpKind::GatherExpertWeights, collective<Scalar>, return_gradient<Scalar>},
     {OpKind::ShadowWeights, broadcast_shadow<Scalar>, return_shadow_gradient<Scalar>},
     {OpKind::RestoreDispatch, nullptr, collective<Scalar>},
     {OpKind::RestoreGather, nullptr, collective<Scalar>},
     {OpKind::StageSend, stage_send<Scalar>, stage_send<Scalar>},
     {OpKind::StageReceive, stage_receive<Scalar>, stage_receive<Scalar>},
     {OpKind::DenseGradientAllReduce, nullptr, dense_gradient_all_reduce<Scalar>},
     {OpKind::ExpertGradientAllReduce, nullptr, collective<Scalar>}});

}  // namespace

template <class Scalar>
OpKernel<Scalar> communication_kernel_of(const Op& op) {
  return find_kernel<Scalar>(exchange_kernels<Scalar>, op);
}

template OpKernel<float> communication_kernel_of<float>(const Op&);
template OpKernel<double> communication_kernel_of<double>(const Op&);

}  // namespace dovetail::exec

#include "exec/device/group_op.hpp"

#include <utility>

#include "exec/device/device_op.hpp"
#include "exec/device/tensor_bodies.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

using Members = std::vector<GroupMember>;

// Block j of member i's buffer becomes block i of member j's.
void all_to_all(Recorder& out, const Members& members) {
  const std::int64_t block = members[0].read_bytes(0) / std::ssize(members);
  for (std::int64_t i = 0; i < std::ssize(members); ++i)
    for (std::int64_t j = 0; j < std::ssize(members); ++j)
      out.copy(members[static_cast<std::size_t>(j)].write(0) + i * block,
               members[static_cast<std::size_t>(i)].read(0) + j * block, block);
}

void all_gather(Recorder& out, const Members& members) {
  const std::int64_t block = members[0].read_bytes(0);
  for (const GroupMember& to : members)
    for (std::int64_t i = 0; i < std::ssize(members); ++i)
      out.copy(to.write(0) + i * block, members[static_cast<std::size_t>(i)].read(0), block);
}

// All members' buffers of an operand that is read.
template <class Scalar>
const Scalar* const* sources(Recorder& out, const Members& members, std::size_t operand) {
  std::vector<const Scalar*> result;
  for (const GroupMember& m : members) result.push_back(reinterpret_cast<const Scalar*>(m.read(operand)));
  return out.table(result);
}

// Elements [first, first + count) of all sources, summed.
template <class Scalar>
void record_sum_of(Recorder& out, const Scalar* const* from, const Members& members, std::int64_t first,
                   std::int64_t count, Scalar* sum) {
  launch_packed<Scalar>(
      out, count,
      [&]<int size>() {
        return SumOf<Scalar, size>{from, std::ssize(members), first, sum};
      },
      first % pack_size<Scalar> == 0);
}

template <class Scalar>
void reduce_scatter(Recorder& out, const Members& members) {
  const Scalar* const* const from = sources<Scalar>(out, members, 0);
  const std::int64_t block = members[0].operands.write_tensor(0).elements;
  for (std::int64_t i = 0; i < std::ssize(members); ++i)
    record_sum_of(out, from, members, i * block, block,
                  reinterpret_cast<Scalar*>(members[static_cast<std::size_t>(i)].write(0)));
}

// Elements [first, first + count) of what all read, summed into what all write.
template <class Scalar>
void all_reduce(Recorder& out, const Members& members, std::int64_t first, std::int64_t count) {
  Scalar* const sum = out.scratch<Scalar>(count);
  record_sum_of(out, sources<Scalar>(out, members, 0), members, first, count, sum);
  for (const GroupMember& m : members)
    out.copy(reinterpret_cast<Scalar*>(m.write(0)) + first, sum, count * static_cast<std::int64_t>(sizeof(Scalar)));
}

// Steps go from the tensor read to the first one written, by way of the others.
void steps(Recorder& out, const Members& members) {
  const OpOperands& o = members[0].operands;
  const auto all = o.schedule.steps_of(o.op);
  check(o.write_count() == all.size(), "a tensor for the result of each step");
  for (std::size_t i = 0; i < all.size(); ++i) {
    const CollectiveStep& step = all[i];
    const std::size_t result = i + 1 == all.size() ? 0 : i + 1;
    const auto source = [&](const GroupMember& m) { return i == 0 ? m.read(0) : m.write(i); };
    const std::int64_t size = i == 0 ? members[0].read_bytes(0) : members[0].write_bytes(i);
    const std::int64_t block = size / step.source_blocks();
    check(block * step.target_blocks() == members[0].write_bytes(result), "buffers of other sizes than their step's");
    for (std::size_t from = 0; from < members.size(); ++from)
      for (const Move& m : moves_from(step, static_cast<int>(from)))
        out.copy(members[static_cast<std::size_t>(m.target)].write(result) + m.target_block * block,
                 source(members[from]) + m.source_block * block, m.blocks * block);
  }
}

// With split peers: a block for the rank at each offset; combining returns them.
void exchange_with_offsets(Recorder& out, const Members& members) {
  const Op& op = members[0].operands.op;
  const bool to_owners = (op.kind == OpKind::Dispatch) == (op.phase == Phase::Forward);
  const std::int64_t size = std::ssize(members), block = members[0].read_bytes(0) / op.peers.size();
  for (std::int64_t own = 0; own < size; ++own)
    for (std::int64_t offset = op.peers.first; offset < op.peers.last; ++offset) {
      const std::int64_t to = (own + (to_owners ? offset : size - offset)) % size;
      const std::int64_t at = (offset - op.peers.first) * block;
      out.copy(members[static_cast<std::size_t>(to)].write(0) + at, members[static_cast<std::size_t>(own)].read(0) + at,
               block);
    }
}

// The gathered shards' gradients: each rank adds those of its own shard.
template <class Scalar>
void return_gradient(Recorder& out, const Members& members) {
  const Scalar* const* const from = sources<Scalar>(out, members, 0);
  const std::int64_t own = members[0].operands.write_tensor(0).elements;
  Scalar* const sum = out.scratch<Scalar>(own);
  for (std::int64_t i = 0; i < std::ssize(members); ++i) {
    auto* const to = reinterpret_cast<Scalar*>(members[static_cast<std::size_t>(i)].write(0));
    record_sum_of(out, from, members, i * own, own, sum);
    record_sum<Scalar>(out, to, sum, to, own);
  }
}

// A shadowed expert's weights: from their owner to all, or their gradients' sum added to the owner's.
template <class Scalar>
void shadow(Recorder& out, const Members& members) {
  const OpOperands& o = members[0].operands;
  const std::int64_t local = o.shape.local_experts, at = o.op.expert % local * o.shape.expert_parameters();
  const GroupMember& owner = members[static_cast<std::size_t>(o.op.expert / local)];
  if (o.op.phase == Phase::Forward) {
    for (const GroupMember& m : members)
      out.copy(m.write(0), reinterpret_cast<const Scalar*>(owner.read(0)) + at, m.write_bytes(0));
    return;
  }
  const std::int64_t count = o.read_tensor(0).elements;
  Scalar* const sum = out.scratch<Scalar>(count);
  Scalar* const to = reinterpret_cast<Scalar*>(owner.write(0)) + at;
  record_sum_of(out, sources<Scalar>(out, members, 0), members, 0, count, sum);
  record_sum<Scalar>(out, to, sum, to, count);
}

template <class Scalar>
void collective(Recorder& out, const Members& members) {
  switch (members[0].operands.op.collective()) {
    case Collective::AllToAll:
      return all_to_all(out, members);
    case Collective::AllGather:
      return all_gather(out, members);
    case Collective::ReduceScatter:
      return reduce_scatter<Scalar>(out, members);
    case Collective::AllReduce:
      return all_reduce<Scalar>(out, members, 0, members[0].operands.read_tensor(0).elements);
    default:
      throw InternalError("no exchange on a device for " + to_string(members[0].operands.op));
  }
}

}  // namespace

bool exchanges(const Schedule& schedule, const Op& op) {
  return op.collective() != Collective::None || !schedule.steps_of(op).empty() || op.kind == OpKind::StageSend;
}

template <class Scalar>
void record_stage_sum(Recorder& out, const GroupMember& sender, Scalar* to) {
  const OpOperands& o = sender.operands;
  out.zero(to, o.write_tensor(0).elements);
  std::int64_t next_chunk = 0;
  for (std::size_t i = 0; i < o.read_count(); ++i) {
    const bool chunk = o.read_tensor(i).chunk >= 0;
    const std::int64_t elements = o.read_tensor(i).elements;
    Scalar* const part = to + (chunk ? next_chunk : 0);
    record_sum<Scalar>(out, part, reinterpret_cast<const Scalar*>(sender.read(i)), part, elements);
    if (chunk) next_chunk += elements;
  }
}

template <class Scalar>
void record_exchange(Recorder& out, const std::vector<GroupMember>& members) {
  const OpOperands& o = members[0].operands;
  switch (o.op.kind) {
    case OpKind::StageSend:
      return record_stage_sum<Scalar>(out, members[0], reinterpret_cast<Scalar*>(members[1].write(0)));
    case OpKind::ShadowWeights:
      return shadow<Scalar>(out, members);
    case OpKind::GatherExpertWeights:
      if (o.op.phase == Phase::Backward) return return_gradient<Scalar>(out, members);
      return collective<Scalar>(out, members);
    case OpKind::DenseGradientAllReduce:
      return all_reduce<Scalar>(out, members, o.op.rows.first, o.op.rows.size());
    default:
      if (!o.schedule.steps_of(o.op).empty()) return steps(out, members);
      if (o.op.peers.size() > 0 && (o.op.kind == OpKind::Dispatch || o.op.kind == OpKind::Combine))
        return exchange_with_offsets(out, members);
      return collective<Scalar>(out, members);
  }
}

template void record_stage_sum<double>(Recorder&, const GroupMember&, double*);
template void record_stage_sum<float>(Recorder&, const GroupMember&, float*);
template void record_stage_sum<Bf16>(Recorder&, const GroupMember&, Bf16*);
template void record_exchange<double>(Recorder&, const Members&);
template void record_exchange<float>(Recorder&, const Members&);
template void record_exchange<Bf16>(Recorder&, const Members&);

}  // namespace dovetail::exec

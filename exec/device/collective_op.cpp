#include "exec/device/collective_op.hpp"

#include <utility>

#include "exec/device/device_op.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

template <class Scalar>
class RankExchange {
 public:
  RankExchange(Recorder& out, const GroupMember& self, DeviceCommunicator& communicator)
      : out_(out), self_(self), o_(self.operands), communicator_(communicator) {}

  void record() {
    switch (o_.op.kind) {
      case OpKind::StageSend:
        return stage_send();
      case OpKind::StageReceive:
        return messages({}, {{sender(), self_.write(0), self_.write_bytes(0)}});
      case OpKind::ShadowWeights:
        return o_.op.phase == Phase::Forward ? broadcast_shadow() : return_shadow_gradient();
      case OpKind::GatherExpertWeights:
        return o_.op.phase == Phase::Backward ? return_gradient() : collective();
      case OpKind::DenseGradientAllReduce:
        return all_reduce(o_.op.rows.first, o_.op.rows.size());
      default:
        if (!o_.schedule.steps_of(o_.op).empty()) return steps();
        if (o_.op.peers.size() > 0 && (o_.op.kind == OpKind::Dispatch || o_.op.kind == OpKind::Combine))
          return exchange_with_offsets();
        return collective();
    }
  }

 private:
  using Sends = std::vector<DeviceSend>;
  using Receives = std::vector<DeviceReceive>;

  static Scalar* scalars(std::byte* data) { return reinterpret_cast<Scalar*>(data); }
  static DeviceSum sum_of(const void* send, void* receive, std::int64_t count) {
    return {send, receive, count, StoredOf<Scalar>::value};
  }

  void messages(Sends sends, Receives receives) {
    if (sends.empty() && receives.empty()) return;
    out_.call([&c = communicator_, sends = std::move(sends), receives = std::move(receives)](Queue& queue) {
      c.send_receive(queue, sends, receives);
    });
  }

  void collective() {
    DeviceCommunicator& c = communicator_;
    std::byte *const from = self_.read(0), *const to = self_.write(0);
    switch (o_.op.collective()) {
      case Collective::AllToAll:
        return all_to_all();
      case Collective::AllGather:
        return out_.call(
            [&c, from, to, bytes = self_.read_bytes(0)](Queue& queue) { c.all_gather(queue, from, to, bytes); });
      case Collective::ReduceScatter:
        return out_.call(
            [&c, sum = sum_of(from, to, o_.write_tensor(0).elements)](Queue& queue) { c.reduce_scatter(queue, sum); });
      case Collective::AllReduce:
        return all_reduce(0, o_.read_tensor(0).elements);
      default:
        throw InternalError("no exchange between devices for " + to_string(o_.op));
    }
  }

  // Elements [first, first + count) of what is read, to the same place of what is written.
  void all_reduce(std::int64_t first, std::int64_t count) {
    const DeviceSum sum = sum_of(scalars(self_.read(0)) + first, scalars(self_.write(0)) + first, count);
    out_.call([&c = communicator_, sum](Queue& queue) { c.all_reduce(queue, sum); });
  }

  void all_to_all() {
    const std::int64_t block = self_.read_bytes(0) / communicator_.size();
    Sends sends;
    Receives receives;
    for (int peer = 0; peer < communicator_.size(); ++peer) {
      sends.push_back({peer, self_.read(0) + peer * block, block});
      receives.push_back({peer, self_.write(0) + peer * block, block});
    }
    messages(std::move(sends), std::move(receives));
  }

  // With split peers: a block for the rank at each offset, from the rank at the same offset the other way; combining
  // returns them.
  void exchange_with_offsets() {
    const RowRange offsets = o_.op.peers;
    const bool to_owners = (o_.op.kind == OpKind::Dispatch) == (o_.op.phase == Phase::Forward);
    const int size = communicator_.size(), own = communicator_.rank();
    const std::int64_t block = self_.read_bytes(0) / offsets.size();
    Sends sends;
    Receives receives;
    for (std::int64_t offset = offsets.first; offset < offsets.last; ++offset) {
      const int o = static_cast<int>(offset), after = (own + o) % size, before = (own - o + size) % size;
      const std::int64_t at = (offset - offsets.first) * block;
      sends.push_back({to_owners ? after : before, self_.read(0) + at, block});
      receives.push_back({to_owners ? before : after, self_.write(0) + at, block});
    }
    messages(std::move(sends), std::move(receives));
  }

  // From the tensor read to the first one written, by way of the others.
  void steps() {
    const auto all = o_.schedule.steps_of(o_.op);
    check(o_.write_count() == all.size(), "a tensor for the result of each step");
    std::byte* source = self_.read(0);
    std::int64_t size = self_.read_bytes(0);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t result = i + 1 == all.size() ? 0 : i + 1;
      const std::int64_t block = size / all[i].source_blocks();
      check(block * all[i].target_blocks() == self_.write_bytes(result), "buffers of other sizes than their step's");
      step(all[i], source, self_.write(result), block);
      source = self_.write(result);
      size = self_.write_bytes(result);
    }
  }

  void step(const CollectiveStep& step, const std::byte* source, std::byte* target, std::int64_t block) {
    const std::vector<Move> from_here = moves_from(step, communicator_.rank());
    if (step.kind == StepKind::Copy) {
      for (const Move& m : from_here)
        out_.copy(target + m.target_block * block, source + m.source_block * block, m.blocks * block);
      return;
    }
    Sends sends;
    Receives receives;
    for (const Move& m : from_here) sends.push_back({m.target, source + m.source_block * block, m.blocks * block});
    for (const Move& m : moves_to(step, communicator_.rank()))
      receives.push_back({m.source, target + m.target_block * block, m.blocks * block});
    messages(std::move(sends), std::move(receives));
  }

  // The gathered shards' gradients: each rank adds those of its own shard.
  void return_gradient() {
    const std::int64_t own = o_.write_tensor(0).elements;
    auto* const sum = out_.scratch<Scalar>(own);
    out_.call(
        [&c = communicator_, part = sum_of(self_.read(0), sum, own)](Queue& queue) { c.reduce_scatter(queue, part); });
    record_sum<Scalar>(out_, scalars(self_.write(0)), sum, scalars(self_.write(0)), own);
  }

  // Where a shadowed expert's weights are: its owner, and at which element there.
  int owner() const { return static_cast<int>(o_.op.expert / o_.shape.local_experts); }
  std::int64_t owned_at() const { return o_.op.expert % o_.shape.local_experts * o_.shape.expert_parameters(); }

  void broadcast_shadow() {
    out_.call([&c = communicator_, from = scalars(self_.read(0)) + owned_at(), to = self_.write(0),
               bytes = self_.write_bytes(0),
               root = owner()](Queue& queue) { c.broadcast(queue, from, to, bytes, root); });
  }

  void return_shadow_gradient() {
    const std::int64_t count = o_.read_tensor(0).elements;
    auto* const sum = out_.scratch<Scalar>(count);
    out_.call([&c = communicator_, part = sum_of(self_.read(0), sum, count), root = owner()](Queue& queue) {
      c.reduce(queue, part, root);
    });
    if (communicator_.rank() != owner()) return;
    Scalar* const to = scalars(self_.write(0)) + owned_at();
    record_sum<Scalar>(out_, to, sum, to, count);
  }

  // The earlier of the two stages is the first member.
  int receiver() const { return o_.op.phase == Phase::Forward ? 1 : 0; }
  int sender() const { return 1 - receiver(); }

  void stage_send() {
    const std::int64_t count = o_.write_tensor(0).elements;
    auto* const sum = out_.scratch<Scalar>(count);
    record_stage_sum<Scalar>(out_, self_, sum);
    messages({{receiver(), sum, count * static_cast<std::int64_t>(sizeof(Scalar))}}, {});
  }

  Recorder& out_;
  const GroupMember& self_;
  const OpOperands& o_;
  DeviceCommunicator& communicator_;
};

}  // namespace

template <class Scalar>
void record_collective(Recorder& out, const GroupMember& self, DeviceCommunicator& communicator) {
  RankExchange<Scalar>(out, self, communicator).record();
}

template void record_collective<double>(Recorder&, const GroupMember&, DeviceCommunicator&);
template void record_collective<float>(Recorder&, const GroupMember&, DeviceCommunicator&);
template void record_collective<Bf16>(Recorder&, const GroupMember&, DeviceCommunicator&);

}  // namespace dovetail::exec

// SPDX-License-Identifier: Apache-2.0
#include "exec/device/self_exchange.hpp"

#include <algorithm>
#include <variant>

#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

std::int32_t moment_of(OpId op) {
  return static_cast<std::int32_t>(Hold::first_op) + op;
}

std::unique_ptr<Memory> zeros(ComputeDevice& device, std::size_t bytes) {
  const std::vector<std::byte> values(bytes);
  auto memory = device.allocate(std::ssize(values), Place::Device);
  device.copy_now(memory->data(), values.data(), memory->bytes());
  return memory;
}

// From one place to another as many bytes as the larger of them has; the smaller one is gone over again.
void add_pieces(std::byte* to, std::int64_t to_bytes, const std::byte* from, std::int64_t from_bytes,
                std::vector<Piece>& pieces) {
  const std::int64_t all = std::max(to_bytes, from_bytes), at_once = std::min(to_bytes, from_bytes);
  for (std::int64_t at = 0; at < all && at_once > 0; at += at_once)
    pieces.push_back(
        {to_bytes == all ? to + at : to, from_bytes == all ? from + at : from, std::min(at_once, all - at)});
}

// The elements that an exchange in place sums or gathers; in scratch memory where several tensors share them.
Region exchanged_in_place(const GroupMember& self) {
  for (const LoweredStep& step : self.lowered().steps)
    if (const auto* native = std::get_if<NativeCollective>(&step))
      return native->collective == Collective::AllGather ? native->to : native->from;
  throw InternalError("an exchange in place without a collective");
}

// Sums read all that they are given. Data that stays in its place is copied to some memory beside it, larger than a
// cache.
std::vector<Piece> pieces_of(const GroupMember& self, Recorder& recorder) {
  const OpOperands& o = self.operands;
  const TensorId source = o.source(), result = o.result();
  std::vector<Piece> pieces;
  if (self.at(source) == self.at(result)) {
    constexpr std::int64_t most_beside = 1 << 27;
    const Region moved = exchanged_in_place(self);
    const std::int64_t size = self.element_bytes(source), bytes = moved.count * size,
                       beside = std::min(bytes, most_beside);
    const std::int64_t there = moved.tensor == Region::scratch ? std::min(bytes, self.bytes(source)) : bytes;
    add_pieces(recorder.scratch<std::byte>(beside), beside,
               self.at(source) + (moved.tensor == Region::scratch ? 0 : moved.first * size), there, pieces);
  } else if (o.op.collective() == Collective::ReduceScatter) {
    add_pieces(self.at(result), self.bytes(result), self.at(source), self.bytes(source), pieces);
  } else if (o.op.kind != OpKind::StageSend) {
    for (TensorId to : o.writes())
      add_pieces(self.at(to), self.bytes(to), self.at(source), std::min(self.bytes(source), self.bytes(to)), pieces);
  }
  return pieces;
}

}  // namespace

// A held op begins when the step, the op before it on its stream and all that it depends on have ended.
SelfExchanges::SelfExchanges(ComputeDevice& device, const Schedule& schedule, int rank_class,
                             const DeviceSettings& settings)
    : device_(device),
      tolerance_(ComputeDevice::nanoseconds(settings.overrun_tolerance)),
      blocks_(settings.exchange_blocks),
      moments_(zeros(device, (schedule.ops.size() + Hold::first_op) * sizeof(std::int64_t))),
      done_(zeros(device, schedule.ops.size() * sizeof(std::int32_t))),
      held_(settings.exchange_durations),
      before_(schedule.ops.size()),
      told_(schedule.ops.size()) {
  held_.resize(schedule.ops.size());
  IdVector<StreamId, OpId> last(schedule.streams.size());
  for (const OpId i : schedule.ops.ids()) {
    const Op& op = schedule.ops[i];
    if (schedule.class_of(op) != rank_class || !exchanges(schedule, op)) held_[i].reset();
    if (schedule.class_of(op) != rank_class) continue;
    if (held_[i]) {
      before_[i].push_back(static_cast<std::int32_t>(Hold::begin));
      const auto begins_after = [&](OpId before) {
        before_[i].push_back(moment_of(before));
        if (!held_[before]) told_[before] = 1;
      };
      if (const OpId before = last[op.stream]; before.exists()) begins_after(before);
      for (OpId before : schedule.dependencies_of(op))
        if (schedule.class_of(schedule.ops[before]) == rank_class) begins_after(before);
    }
    last[op.stream] = i;
  }
}

void SelfExchanges::begin(Queue& origin) const {
  device_.mark(origin, moments() + Hold::begin);
}

void SelfExchanges::after(Queue& queue, OpId op) const {
  if (told_[op] != 0) device_.mark(queue, moments() + moment_of(op));
}

void SelfExchanges::record(const GroupMember& self, OpId id, Recorder& recorder) const {
  const std::vector<Piece> pieces = pieces_of(self, recorder);
  HeldExchange exchange;
  exchange.hold.moments = moments();
  exchange.hold.tolerance = tolerance_;
  if (holds(id)) {
    exchange.hold.before = recorder.table(before_[id]);
    exchange.hold.count = std::ssize(before_[id]);
    exchange.hold.until = ComputeDevice::nanoseconds(*held_[id]);
    exchange.hold.finish = moment_of(id);
  }
  exchange.pieces = recorder.table(pieces);
  exchange.count = std::ssize(pieces);
  for (const Piece& piece : pieces) exchange.bytes += piece.bytes;
  exchange.done = reinterpret_cast<std::int32_t*>(done_->data()) + id;
  exchange.blocks = blocks_;
  recorder.call([&device = device_, exchange](Queue& queue) { device.exchange(queue, exchange); });
}

long SelfExchanges::overruns() const {
  std::int64_t count = 0;
  device_.copy_now(&count, moments() + Hold::overruns, sizeof count);
  return static_cast<long>(count);
}

}  // namespace dovetail::exec

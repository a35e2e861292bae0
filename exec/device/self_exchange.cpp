#include "exec/device/self_exchange.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace dovetail::exec {
namespace {

// Copies of a slice should be long against its two launches, some us each.
constexpr std::int64_t slice_bytes = 1 << 20, most_slices = 8;

std::int32_t moment_of(OpId op) {
  return static_cast<std::int32_t>(Hold::first_op) + op;
}

}  // namespace

// A held op begins when the step, the op before it on its stream and all that it depends on have ended.
SelfExchanges::SelfExchanges(ComputeDevice& device, const Schedule& schedule, int rank_class,
                             std::vector<std::optional<Seconds>> durations, Seconds overrun_tolerance,
                             DeviceNetwork* network)
    : device_(device),
      tolerance_(ComputeDevice::nanoseconds(overrun_tolerance)),
      held_(std::move(durations)),
      before_(schedule.ops.size()),
      told_(schedule.ops.size()) {
  held_.resize(schedule.ops.size());
  const std::vector<std::int64_t> zeros(schedule.ops.size() + Hold::first_op);
  moments_ = device.allocate(std::ssize(zeros) * static_cast<std::int64_t>(sizeof zeros[0]), Place::Device);
  device.copy_now(moments_->data(), zeros.data(), moments_->bytes());
  std::vector<OpId> last(schedule.streams.size(), -1);
  for (std::size_t i = 0; i < schedule.ops.size(); ++i) {
    const Op& op = schedule.ops[i];
    if (schedule.class_of(op) != rank_class || !exchanges(schedule, op)) held_[i].reset();
    if (schedule.class_of(op) != rank_class) continue;
    if (held_[i]) {
      before_[i].push_back(static_cast<std::int32_t>(Hold::begin));
      const auto begins_after = [&](OpId before) {
        before_[i].push_back(moment_of(before));
        if (!held_[static_cast<std::size_t>(before)]) told_[static_cast<std::size_t>(before)] = 1;
      };
      if (const OpId before = last[static_cast<std::size_t>(op.stream)]; before >= 0) begins_after(before);
      for (OpId before : schedule.dependencies_of(op))
        if (schedule.class_of(schedule.ops[static_cast<std::size_t>(before)]) == rank_class) begins_after(before);
    }
    last[static_cast<std::size_t>(op.stream)] = static_cast<OpId>(i);
  }
  constexpr std::array own{0};
  for (std::size_t i = 0; network != nullptr && i < schedule.streams.size(); ++i)
    self_.push_back(network->communicator(own));
}

void SelfExchanges::begin(Queue& origin) const {
  device_.mark(origin, moments() + Hold::begin);
}

void SelfExchanges::after(Queue& queue, OpId op) const {
  if (told_[static_cast<std::size_t>(op)] != 0) device_.mark(queue, moments() + moment_of(op));
}

// What is sent is sent over and over, where less is sent than arrives. In place there is nothing to move.
void SelfExchanges::record(const GroupMember& self, OpId id, Recorder& recorder) const {
  const Op& op = self.operands.op;
  const std::int64_t sent = self.read_bytes(0);
  std::vector<Piece> pieces;
  std::int64_t total = 0;
  if (op.kind != OpKind::StageSend && op.kind != OpKind::DenseGradientAllReduce && self.read(0) != self.write(0))
    for (std::size_t i = 0; i < self.operands.write_count(); ++i)
      for (std::int64_t at = 0; at < self.write_bytes(i); at += sent) {
        pieces.push_back({self.write(i) + at, self.read(0), std::min(sent, self.write_bytes(i) - at)});
        total += pieces.back().bytes;
      }
  if (!holds(id)) return send(op.stream, pieces, {0, total}, recorder);
  const auto at = static_cast<std::size_t>(id);
  Hold hold;
  hold.moments = moments();
  hold.before = recorder.table(before_[at]);
  hold.count = std::ssize(before_[at]);
  hold.tolerance = tolerance_;
  const std::int64_t slices = std::clamp<std::int64_t>(total / slice_bytes, 1, most_slices);
  for (std::int64_t i = 0; i < slices; ++i) {
    send(op.stream, pieces, {total * i / slices, total * (i + 1) / slices}, recorder);
    hold.until = ComputeDevice::nanoseconds(*held_[at]) * (i + 1) / slices;
    if (i + 1 == slices) hold.finish = moment_of(id);
    recorder.call([&device = device_, hold](Queue& queue) { device.hold(queue, hold); });
  }
}

// The bytes `range` of all pieces.
void SelfExchanges::send(StreamId stream, const std::vector<Piece>& pieces, RowRange range, Recorder& recorder) const {
  std::int64_t first = 0;
  for (const Piece& piece : pieces) {
    const std::int64_t begin = std::max(range.first - first, std::int64_t{0}),
                       bytes = std::min(range.last - first, piece.bytes) - begin;
    first += piece.bytes;
    if (bytes <= 0) continue;
    const DeviceSend out{0, piece.from + begin, bytes};
    const DeviceReceive in{0, piece.to + begin, bytes};
    if (self_.empty()) {
      recorder.copy(in.data, out.data, bytes);
      continue;
    }
    recorder.call([&c = *self_[static_cast<std::size_t>(stream)], out, in](Queue& queue) {
      c.send_receive(queue, {&out, 1}, {&in, 1});
    });
  }
}

long SelfExchanges::overruns() const {
  std::int64_t count = 0;
  device_.copy_now(&count, moments() + Hold::overruns, sizeof count);
  return static_cast<long>(count);
}

}  // namespace dovetail::exec

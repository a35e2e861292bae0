// SPDX-License-Identifier: Apache-2.0
#include "exec/device/channels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "exec/device/group_op.hpp"
#include "models/base/errors.hpp"
#include "models/schedule/op_table.hpp"

namespace dovetail::exec {
namespace {

// Beside the passes, as the second part of a key: gradients of weights that both stages have.
constexpr int of_shared_weights = 10;

bool between_stages(const Op& op) {
  return entry_of(op.kind).part == OpPart::Stages;
}

bool shares_gradients(const Schedule& s, const Op& op) {
  return between_stages(op) && s.tensors[s.writes_of(op).front()].kind == TensorKind::SharedGradient;
}

// A rank class is a stage.
std::pair<int, int> link_of(const Schedule& s, const Op& op) {
  const auto [sender, receiver] = s.ends_of(op);
  return {-2 - (sender * s.groups.pp + receiver),
          shares_gradients(s, op) ? of_shared_weights : static_cast<int>(op.phase)};
}

}  // namespace

void require_messages_in_turn(const Schedule& s) {
  std::map<std::pair<int, int>, std::deque<TensorId>> sent;
  for (const Op& op : s.ops) {
    if (!between_stages(op) || op.exchange() == nullptr) continue;
    std::deque<TensorId>& waiting = sent[link_of(s, op)];
    if (op.kind == OpKind::StageSend) {
      waiting.push_back(s.writes_of(op).front());
      continue;
    }
    if (waiting.front() != s.reads_of(op).front()) {
      const auto [sender, receiver] = s.ends_of(op);
      throw InputError(Location{"", 0, 0, "/plan/program"},
                       fmt::format("stage {} takes micro-batch {} before {}, which stage {} sends first: simulated and "
                                   "run on hosts, but not on devices yet",
                                   receiver, op.micro_batch, s.tensors[waiting.front()].micro_batch, sender));
    }
    waiting.pop_front();
  }
}

Channels::Channels(const Schedule& schedule, DeviceNetwork& network) : schedule_(schedule) {
  for (const Op& op : schedule.ops) {
    if (!exchanges(schedule, op)) continue;
    const Key key = key_of(op);
    if (communicators_.contains(key)) continue;
    communicators_[key] = network.communicator(members_of(op, network.rank()));
  }
}

DeviceCommunicator& Channels::of(const Op& op) const {
  const auto& communicator = communicators_.at(key_of(op));
  check(communicator != nullptr, "an op of another rank");
  return *communicator;
}

Channels::Key Channels::key_of(const Op& op) const {
  if (schedule_.joins_stages(op)) return {-1, 0};
  if (!between_stages(op)) return {op.stream, static_cast<int>(op.group())};
  return link_of(schedule_, op);
}

std::vector<int> Channels::members_of(const Op& op, int rank) const {
  const int stage = schedule_.class_of_rank(rank), ranks = schedule_.groups.stage_ranks();
  if (between_stages(op)) {
    const auto [sender, receiver] = schedule_.ends_of(op);
    if (stage != sender && stage != receiver) return {};
    const auto [first, last] = std::minmax(sender, receiver);
    return {rank + (first - stage) * ranks, rank + (last - stage) * ranks};
  }
  if (stage != schedule_.class_of(op) && !schedule_.joins_stages(op)) return {};
  return group_members(schedule_.groups, op.group(), rank);
}

}  // namespace dovetail::exec

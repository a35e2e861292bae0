// SPDX-License-Identifier: Apache-2.0
#include "exec/device/channels.hpp"

#include <algorithm>

#include "exec/device/group_op.hpp"
#include "models/base/errors.hpp"
#include "models/schedule/op_table.hpp"

namespace dovetail::exec {
namespace {

// Beside the passes, as the second part of a key: the gradient of an embedding that both ends have, from each of them.
constexpr int from_first_end = 10, from_last_end = 11;

bool between_stages(const Op& op) {
  return entry_of(op.kind).part == OpPart::Stages;
}

bool between_ends(const Schedule& s, const Op& op) {
  return between_stages(op) && s.tensors[s.writes_of(op).front()].kind == TensorKind::SharedGradient;
}

}  // namespace

Channels::Channels(const Schedule& schedule, DeviceNetwork& network) : schedule_(schedule) {
  for (const Op& op : schedule.ops) {
    if (!exchanges(schedule, op)) continue;
    const Key key = key_of(op);
    if (communicators_.contains(key)) continue;
    communicators_[key] = network.communicator(members_of(op, key, network.rank()));
  }
}

DeviceCommunicator& Channels::of(const Op& op) const {
  const auto& communicator = communicators_.at(key_of(op));
  check(communicator != nullptr, "an op of another rank");
  return *communicator;
}

// A rank class is a stage. Forward a stage sends to the next one and receives from the one before, else the other way.
// The first stage comes after the last one, in the next lap.
Channels::Key Channels::key_of(const Op& op) const {
  const int stages = schedule_.groups.pp;
  if (schedule_.joins_stages(op)) return {-1 - stages, 0};
  if (!between_stages(op)) return {op.stream, static_cast<int>(op.group())};
  if (between_ends(schedule_, op)) {
    const bool first_sends = (op.kind == OpKind::StageSend) == (schedule_.class_of(op) == 0);
    return {-stages, first_sends ? from_first_end : from_last_end};
  }
  const bool from_before = (op.kind == OpKind::StageReceive) == (op.phase == Phase::Forward);
  return {-1 - (schedule_.class_of(op) + (from_before ? stages - 1 : 0)) % stages, static_cast<int>(op.phase)};
}

std::vector<int> Channels::members_of(const Op& op, const Key& key, int rank) const {
  const int stage = schedule_.class_of_rank(rank), ranks = schedule_.groups.stage_ranks();
  if (between_stages(op)) {
    const int earlier = -1 - std::get<0>(key), later = (earlier + 1) % schedule_.groups.pp;
    if (stage != earlier && stage != later) return {};
    const auto [first, last] = std::minmax(earlier, later);
    return {rank + (first - stage) * ranks, rank + (last - stage) * ranks};
  }
  if (stage != schedule_.class_of(op) && !schedule_.joins_stages(op)) return {};
  return group_members(schedule_.groups, op.group(), rank);
}

}  // namespace dovetail::exec

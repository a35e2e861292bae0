// SPDX-License-Identifier: Apache-2.0
// The communicators of one rank for a schedule: one for each stream and kind of group that move data, so that what runs
// beside each other never waits for each other; one for each two neighbouring stages and direction; and one for all.
#pragma once
#include <map>
#include <memory>
#include <tuple>

#include "exec/device/device_network.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail::exec {

// Messages from one stage to another are matched by their order. Throws InputError where a listed program takes them in
// another one than they are sent.
void require_messages_in_turn(const Schedule& schedule);

class Channels {
 public:
  // Called by all ranks of the network, with equal schedules.
  Channels(const Schedule& schedule, DeviceNetwork& network);
  DeviceCommunicator& of(const Op& op) const;

 private:
  // An op that joins all stages has -1; a message a number below that for its two stages and direction, and the pass;
  // any other op the stream and the kind of group.
  using Key = std::tuple<int, int>;
  Key key_of(const Op& op) const;
  std::vector<int> members_of(const Op& op, int rank) const;

  const Schedule& schedule_;
  std::map<Key, std::unique_ptr<DeviceCommunicator>> communicators_;
};

}  // namespace dovetail::exec

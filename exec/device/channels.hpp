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

class Channels {
 public:
  // Called by all ranks of the network, with equal schedules.
  Channels(const Schedule& schedule, DeviceNetwork& network);
  DeviceCommunicator& of(const Op& op) const;

 private:
  // A stage message has -1 - the earlier stage, and the pass (between both ends the last counts as the earlier one, and
  // each way has a number of its own); what joins all stages has -1 - their number; any other
  // has the stream and the kind of group.
  using Key = std::tuple<int, int>;
  Key key_of(const Op& op) const;
  std::vector<int> members_of(const Op& op, const Key& key, int rank) const;

  const Schedule& schedule_;
  std::map<Key, std::unique_ptr<DeviceCommunicator>> communicators_;
};

}  // namespace dovetail::exec

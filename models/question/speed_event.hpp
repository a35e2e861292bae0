// SPDX-License-Identifier: Apache-2.0
// A failure that an experiment injects: a resource that is slower for a while, on every rank that has it.
#pragma once
#include <optional>
#include <string>

#include "models/base/errors.hpp"
#include "models/base/units.hpp"

namespace dovetail {

// From `at` to `until` (for good where it is empty) the resource has this share of its speed: above 0, at most 1.
struct SpeedEvent {
  Seconds at;
  std::optional<Seconds> until;
  std::string resource;  // a name of PricedSchedule::resources; without "#class": that of every rank class
  double speed = 1;
  Location where = {};  // of the resource's name, for errors
};

}  // namespace dovetail

// Failures that an experiment injects: a resource that is slower for a while, on every rank that has it.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/base/errors.hpp"
#include "models/base/units.hpp"

namespace dovetail {

class PricedSchedule;

// From `at` to `until` (for good where it is empty) the resource has this share of its speed: above 0, at most 1.
struct SpeedEvent {
  Seconds at;
  std::optional<Seconds> until;
  std::string resource;  // a name of PricedSchedule::resources; without "#class": that of every rank class
  double speed = 1;
  Location where = {};  // of the resource's name, for errors
};

// Puts the events into a priced schedule; those of one resource that overlap multiply. What plans a step does not do
// so: a plan is made before anything fails. Throws InputError for a name that the schedule's resources do not have.
void inject(std::span<const SpeedEvent> events, PricedSchedule& priced);

}  // namespace dovetail

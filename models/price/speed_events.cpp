// SPDX-License-Identifier: Apache-2.0
#include "models/price/speed_events.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "models/base/json/json_text.hpp"
#include "models/price/contention.hpp"

namespace dovetail {
namespace {

bool is_named(const std::string& resource, const std::string& name) {
  return resource == name || resource.starts_with(name + "#");
}

// The speed that `event` leaves at the time `at`.
double speed_at(const SpeedEvent& event, Seconds at) {
  return event.at <= at && !(event.until && *event.until <= at) ? event.speed : 1;
}

void add_changes(std::span<const SpeedEvent> events, const std::string& resource, int id,
                 std::vector<SpeedChange>& changes) {
  std::vector<Seconds> times;
  for (const SpeedEvent& event : events) {
    if (!is_named(resource, event.resource)) continue;
    times.push_back(event.at);
    if (event.until) times.push_back(*event.until);
  }
  std::ranges::sort(times);
  times.erase(std::unique(times.begin(), times.end()), times.end());
  for (Seconds at : times) {
    double speed = 1;
    for (const SpeedEvent& event : events)
      if (is_named(resource, event.resource)) speed *= speed_at(event, at);
    changes.push_back({id, at, speed});
  }
}

}  // namespace

void inject(std::span<const SpeedEvent> events, PricedSchedule& priced) {
  if (events.empty()) return;
  const std::vector<std::string>& resources = priced.resources;
  for (const SpeedEvent& event : events)
    if (std::ranges::none_of(resources, [&](const std::string& r) { return is_named(r, event.resource); }))
      throw InputError(event.where, fmt::format("resource {}, expected one of {}", in_quotes(event.resource),
                                                fmt::join(resources, ", ")));
  for (std::size_t r = 0; r < resources.size(); ++r)
    add_changes(events, resources[r], static_cast<int>(r), priced.speed_changes);
  std::ranges::stable_sort(priced.speed_changes, {}, &SpeedChange::at);
  priced.contended = is_contended(priced);
}

}  // namespace dovetail

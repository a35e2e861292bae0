#include "models/time/serial_backend.hpp"

#include <algorithm>

namespace dovetail {

Timeline SerialBackend::run(const PricedSchedule& priced) {
  std::vector<double> slowest(priced.resources.size(), 1);  // a resource that changes has its lowest speed always
  for (const SpeedChange& change : priced.speed_changes) {
    double& speed = slowest[static_cast<std::size_t>(change.resource)];
    speed = std::min(speed, change.speed);
  }
  Timeline timeline;
  Seconds now;
  for (const OpId op : priced.schedule->ops.ids()) {
    double speed = 1;
    priced.for_each_demand(op, [&](const Demand& demand) {
      speed = std::min(speed, slowest[static_cast<std::size_t>(demand.resource)]);
    });
    const Seconds start = now;
    now += priced.fixed[op] + (priced.duration[op] - priced.fixed[op]) / speed;
    timeline.ops.push_back({start, now});
  }
  return timeline;
}

}  // namespace dovetail

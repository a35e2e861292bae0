// Simulates a priced schedule with contention: ops that run together and share a resource slow each other down.
#pragma once
#include "models/backend.hpp"

namespace dovetail::sim {

// Sharing is max-min fair between the flows on a resource; an op that another of its resources holds back leaves
// the rest of its share to others. Without sharing the result is AnalyticBackend's, to 1e-12.
// The same input gives the same bytes, whatever ran before in this process. SimGrid allows one engine and one thread
// in a process: the thread that runs first; run() throws InternalError in any other.
class SimGridBackend final : public Backend {
 public:
  std::string_view name() const override { return "simgrid"; }
  Timeline run(const PricedSchedule& priced) override;
};

}  // namespace dovetail::sim

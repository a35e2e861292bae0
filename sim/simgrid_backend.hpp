// SPDX-License-Identifier: Apache-2.0
// Simulates a priced schedule with contention: ops that run together and share a resource slow each other down.
#pragma once
#include "models/time/backend.hpp"

namespace dovetail::sim {

// Sharing is SimGrid's fair bottleneck: each flow on a resource gets an equal part, and what a flow cannot use,
// because another of its resources holds it back, goes to the others. Without sharing the result is
// AnalyticBackend's to 1e-13. At most one demand of an op on a resource.
//
// The same input gives the same bytes, whatever ran before in this process, and the accuracy does not wear off.
// SimGrid allows one engine and one thread in a process: the thread that runs first; run() throws InternalError in any
// other. A few hundred thousand ops a second.
class SimGridBackend final : public Backend {
 public:
  std::string_view name() const override { return "simgrid"; }
  Timeline run(const PricedSchedule& priced) override;
};

}  // namespace dovetail::sim

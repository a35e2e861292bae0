// SPDX-License-Identifier: Apache-2.0
// The reference that the folded simulators are checked against: every rank by itself, every message a flow of SimGrid
// on the described links.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "models/question/experiment.hpp"
#include "models/time/backend.hpp"
#include "sim/platform_file.hpp"

namespace dovetail::sim {

// Ops of a schedule run on each rank of their class. Communication takes its fixed time and then as long as its flows
// (rank_flows.hpp): a flow begins when the fixed time of its two ranks has passed (of a ring: of all its ranks), and
// the op ends on a rank when the flows to and from it have (of a ring: all). All else takes its modelled time. So
// calibrated rates, interference, and device memory that kernels and messages share are left out. An op's interval is
// from its first rank's start to its last rank's finish.
class FlowBackend final : public Backend {
 public:
  // Links are those of the experiment's network or, where `platform` is not empty, of this SimGrid platform file, whose
  // hosts are ranks in its order. Throws InputError for a platform that platform_file.hpp refuses; run() for one that
  // SimGrid cannot use.
  explicit FlowBackend(const std::string& platform = "");
  ~FlowBackend() override;
  std::string_view name() const override { return "simgrid-flow"; }
  void prepare(const Experiment& experiment) override;

  // Runs in a child process, so that each run has a SimGrid of its own. Throws InputError for more than 1,024 GPUs,
  // without a network and for changes of speed.
  Timeline run(const PricedSchedule& priced) override;

 private:
  std::optional<Platform> platform_;
  std::unique_ptr<const Experiment> experiment_;
};

}  // namespace dovetail::sim

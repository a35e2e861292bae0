// SPDX-License-Identifier: Apache-2.0
// Work that was captured. Each launch gives it to lanes of the graph's own, between what the launching queue was given
// before and what it gets after.
#pragma once
#include <memory>
#include <vector>

#include "exec/device/deferred/runner.hpp"
#include "exec/device/device.hpp"

namespace dovetail::exec::deferred {

class DeferredGraph final : public Graph {
 public:
  DeferredGraph(Runner& runner, std::vector<std::vector<Command>> parts);
  void launch(Queue& queue) override;

 private:
  Runner& runner_;
  std::vector<std::vector<Command>> parts_;
  std::vector<std::shared_ptr<Lane>> lanes_;  // by part
};

}  // namespace dovetail::exec::deferred

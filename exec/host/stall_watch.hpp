// SPDX-License-Identifier: Apache-2.0
// Ends a run of ranks that are threads of this process once nobody gets past an op.
#pragma once
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "exec/run/progress.hpp"
#include "models/base/units.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail::exec {

class StallWatch {
 public:
  using Tell = std::function<void(const std::string& why)>;

  // Watches while it lives. Once no op has finished for `patience` (see Watch) and no thread has computed either, it
  // calls `give_up`; and `stuck`, if given, where that has not ended it after 2 s: a thread does not look up. Time in
  // which this program was stopped does not count. `ranks`: those whose progress it is. Throws DeviceError.
  StallWatch(const Schedule& schedule, int ranks, const Progress& progress, Seconds patience, Tell give_up, Tell stuck);

 private:
  std::jthread thread_;
};

}  // namespace dovetail::exec

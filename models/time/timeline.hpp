// SPDX-License-Identifier: Apache-2.0
// When each op of a schedule ran, and the numbers read off it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "models/price/priced_schedule.hpp"

namespace dovetail {

enum class ResultKind { Measured, Simulated, Predicted, Published };
inline constexpr Names<ResultKind, 4> result_kind_names{{{"measured", ResultKind::Measured},
                                                         {"simulated", ResultKind::Simulated},
                                                         {"predicted", ResultKind::Predicted},
                                                         {"published", ResultKind::Published}}};

struct Interval {
  Seconds start, finish;
};

struct Timeline {
  ResultKind kind = ResultKind::Predicted;
  IdVector<OpId, Interval> ops;   // time 0 is the start of the step
  IdVector<OpId, bool> emulated;  // measured timelines only: held to a modelled time; empty: none
};

struct StreamUse {
  int rank_class = 0;
  std::string name;
  Seconds busy;
};

struct Metrics {
  Seconds makespan;  // end of the last op
  Seconds forward;   // end of the last forward op; of pipelined stages some are backward by then
  Seconds backward;  // the rest: backward, gradient synchronisation, optimizer
  // A rank's step is the sum of these three. They are means over all ranks.
  Seconds computation;            // computation runs
  Seconds exposed_communication;  // communication runs, and no computation
  Seconds waiting;                // neither runs
  Seconds hidden;                 // of the computation, with communication beside it
  Seconds launch_bound;           // by launch_bound(), where launches take time
  std::vector<StreamUse> streams;
};
Metrics metrics(const Schedule& schedule, const Timeline& timeline);

// The time that the step waits for launches of the host alone: from its last op back through what each waited for last,
// the time between the end of that and the beginning of the op. A faster host saves no more.
Seconds launch_bound(const Schedule& schedule, const Timeline& timeline);
// The part of that between two times.
Seconds launch_bound(const Schedule& schedule, const Timeline& timeline, Seconds from, Seconds to);

// The longest stream or the longest dependency chain of this schedule, whichever is longer; a chain may begin with the
// launches of the host.
Seconds plan_bound(const PricedSchedule& priced);

// The time that this plan's work needs on its busiest resource, without latencies. Chunking and order cannot reduce it.
Seconds lower_bound(const PricedSchedule& priced);

}  // namespace dovetail

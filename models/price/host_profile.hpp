// SPDX-License-Identifier: Apache-2.0
// The work of a training framework on the host for the ops of a step, beside launching their kernels: calls of library
// layers and of operators, nodes of the backward pass, hooks, calls of collectives.
//   time of an op = pace x (sum over its operations of count x time) + launches x launch
// The counts are read off the framework's code, and the times of an operation are those of one processor
// (data/frameworks). `pace` and `launch` are the calibration's (HostCost).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "models/base/provenance.hpp"
#include "models/base/units.hpp"
#include "models/question/experiment.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail {

struct HostWork {
  Seconds work;
  double kernels = 0;  // launched beside the matrix products and attention of the op

  HostWork& operator+=(const HostWork& other) {
    work += other.work;
    kernels += other.kernels;
    return *this;
  }
};

// The work of an op by the sizes of its question.
struct SizedHostWork {
  HostWork once;
  HostWork each_expert;  // of the rank
  HostWork each_block;   // of rows: all experts, on all ranks that share one
  HostWork each_weight;  // matrices and vectors of the rank
};

struct HostSizes {
  double experts = 0, blocks = 0, weights = 0;
};
HostSizes host_sizes(const Experiment& experiment);

// The schedules that an entry is of.
enum class HostCase : std::uint8_t { Routed, Padded, Deduplicated, NotDeduplicated, Paired };
inline constexpr Names<HostCase, 5> host_case_names{{{"routed", HostCase::Routed},
                                                     {"padded", HostCase::Padded},
                                                     {"deduplicated", HostCase::Deduplicated},
                                                     {"not_deduplicated", HostCase::NotDeduplicated},
                                                     {"paired", HostCase::Paired}}};
bool holds(HostCase host_case, const Schedule& schedule);

// Work for ops of a kind in a phase. Entries of the same ops add up.
struct HostEntry {
  OpKind op = OpKind::Gate;
  Phase phase = Phase::Forward;
  std::vector<HostCase> cases;  // all of which must hold
  SizedHostWork work;
};

struct HostProfile {
  std::vector<HostEntry> entries;
  // At the begin of each pass of a micro-batch through a pipeline stage, and before the update, once a step.
  SizedHostWork forward_pass, backward_pass, step;
  Seconds graph;          // to replay a captured graph, beside its launch
  Seconds wait;           // until the host sees that an op has ended which it waits for
  Provenance provenance;  // of the times
  bool empty() const { return entries.empty(); }
};

// How fast a host is: the time of a launch, and the time of a framework's work by that in its profile.
struct HostPace {
  Seconds launch;
  double work = 1;
};

// The work at the begin of a forward and of a backward pass, which does not depend on what the pass does.
struct PassTimes {
  Seconds forward, backward;
};
PassTimes pass_times(const HostProfile& profile, HostPace pace, const HostSizes& sizes);

// The time that the host of each rank class takes to issue the ops, with the schedule's graphs. Captured ops that
// follow one another in the program of a rank class are one graph: its first op has its one launch, and the others take
// nothing. Ops of kinds that no entry knows have the launches of launches_of() alone.
IdVector<OpId, Seconds> host_times(const Schedule& schedule, const HostProfile& profile, HostPace pace,
                                   const HostSizes& sizes = {});

}  // namespace dovetail

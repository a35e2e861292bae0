// Costs enter here, once: what each op of a schedule demands of which resource, in seconds.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/schedule.hpp"

namespace dovetail {

// Exclusive use of a unit-speed resource. An op progresses on all its demands together, so alone it takes
// fixed + max(seconds); `multiplicity` flows share fairly with those of other ops.
struct Demand {
  int resource = 0;
  Seconds seconds;
  int multiplicity = 1;
};

class PricedSchedule {
 public:
  std::shared_ptr<const Schedule> schedule;
  std::vector<std::string> resources;
  std::size_t physical = 0;       // the first ones exist; those after them stand for contention
  std::vector<Seconds> fixed;     // per op: latency that uses no resource
  std::vector<Seconds> duration;  // per op, alone: fixed + max over demands
  std::vector<Demand> demands;
  std::vector<std::int32_t> first_demand;  // size ops + 1
  bool contended = false;                  // ops of several streams may meet on a resource: see fair_sharing.hpp

  std::span<const Demand> demands_of(OpId op) const {
    const auto i = static_cast<std::size_t>(op);
    return {demands.data() + first_demand[i], demands.data() + first_demand[i + 1]};
  }
};

// Resources per rank class: compute, inter (network), intra (links in the node), copy (to and from the host) if the
// schedule has such a stream, and one "a/b" contention resource per interference factor of the calibration. The
// resource of a collective follows its group; an all-to-all may take several (see step_cost.hpp). Throws InputError
// where the calibration lacks a cost.
PricedSchedule price(std::shared_ptr<const Schedule> schedule, const Experiment& experiment);

// One line for each profiled module whose measured range a schedule leaves: such times are extrapolated.
std::vector<std::string> extrapolated_profiles(const Schedule& schedule, const Model& model);

}  // namespace dovetail

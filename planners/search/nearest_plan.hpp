// SPDX-License-Identifier: Apache-2.0
// Values of knobs that only make sense together: where one is refused because of others, those that go with it.
#pragma once
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "models/plan/knob_table.hpp"
#include "models/plan/plan.hpp"
#include "models/question/experiment.hpp"

namespace dovetail::planners {

// Says whether a plan still has what must stay.
using Keeps = std::function<bool(const Plan&)>;

class NearestPlans {
 public:
  // `wanted` itself if it can be built. Otherwise with up to three other knobs changed, one after the other: one that
  // the refusal names, to a value that takes the rules a step further. Empty: no such plan was found, which is no proof
  // that there is none. A refusal that could not be mended once is not looked at again for as many ranks of experts,
  // whatever must stay.
  std::optional<Plan> find(const Plan& wanted, const Experiment& experiment, const Keeps& keeps);

 private:
  struct Changed {
    std::vector<const Knob*> knobs;
    Plan to;
  };
  std::optional<Plan> remembered(const Plan& wanted, const Experiment& experiment, const Keeps& keeps) const;

  std::vector<Changed> known_;      // what has made plans legal
  std::set<std::string> hopeless_;  // refusals that nothing has mended, by groups of experts
};

// Keeps the plans that have all that `wanted` has and `from` has not.
Keeps keeps_changes(const Plan& from, const Plan& wanted);

}  // namespace dovetail::planners

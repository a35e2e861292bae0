// SPDX-License-Identifier: Apache-2.0
// tune --for: plans that one training framework runs as they are, and what it would gain by what it cannot do.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "bench/pipeline/tune_question.hpp"
#include "models/results/tuning.hpp"
#include "planners/layouts/layout_search.hpp"

namespace dovetail::bench {

// The options with that framework's work of the host, passes and memory, unless they name a framework (data/frameworks)
// or the question's costs are without one.
TuneOptions with_its_costs(TuneOptions options);

class ForOneFramework {
 public:
  // `fixed` sets the knobs that the user has fixed; empty: none.
  ForOneFramework(reports::Framework framework, const Experiment& experiment, planners::LayoutRequest request,
                  std::function<void(Plan&)> fixed);

  planners::AsRun as_run() const;
  const std::string& name() const { return name_; }  // "Megatron-LM"
  std::string text() const;                          // with the version whose arguments were asked

  // Throws InputError where it runs no layout as asked, or no plan with what the user has fixed.
  void require_any(const std::vector<System>& systems) const;

  // Why it does not run the system's plans as they are on this layout; empty: it runs them all.
  std::string refusal(const System& system, const planners::ParallelLayout& layout) const;

  // The framework with the arguments of its best plan.
  ForFramework described(const planners::LaidOutPlan& best) const;

  // Adds what it cannot do of the best plan of all, and what steps are with that. `best`: its own best plan.
  void add_missing(const planners::LaidOutPlan& best, const planners::LaidOutPlan& any, Bytes limit,
                   ForFramework& result) const;

 private:
  reports::FrameworkFlags flags(const planners::LaidOutPlan& plan) const;
  bool runs_alone(const Knob& knob, const planners::LaidOutPlan& any, const reports::TakenPlan& taken) const;
  [[noreturn]] void refuse(const std::string& what, const std::string& why) const;

  reports::Framework framework_;
  const Experiment& experiment_;
  planners::LayoutRequest request_;
  std::function<void(Plan&)> fixed_;
  std::string name_, checked_;
};

}  // namespace dovetail::bench

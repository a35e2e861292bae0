// SPDX-License-Identifier: Apache-2.0
// The fastest way to train a model on a cluster: layout, pipeline, memory and plan together.
//
// Every layout is estimated with the search's own plan, memory first: what a smaller micro-batch holds rules larger
// ones out before they are looked at, and rows are recomputed only where a layout does not fit otherwise. The most
// promising layouts are then arranged in every way that the systems have, the best of these are improved knob by knob
// over the whole plan space, the best plan is tried on the other layouts, and the finalists are predicted whole.
#pragma once
#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "models/time/timeline.hpp"
#include "planners/layouts/floor_search.hpp"
#include "planners/layouts/layout.hpp"
#include "planners/layouts/step_estimate.hpp"
#include "planners/planner.hpp"
#include "planners/search/nearest_plan.hpp"
#include "planners/search/plan_space.hpp"

namespace dovetail::planners {

// A plan on a layout. `experiment` is laid out.
struct LaidOutPlan {
  ParallelLayout layout;
  Plan plan;
  StepEstimate estimate;
  Seconds time;  // of the whole step, once it is predicted, like all below
  Bytes peak;    // of the fullest stage
  std::vector<Bytes> stage_peaks = {};
  Metrics metrics = {};
};

struct LayoutSearchReport {
  long layouts = 0;       // that divide everything
  long too_large = 0;     // of those, by the least that they hold
  long estimated = 0;     // plans on layouts
  long looked_at = 0;     // kinds of stages that were built for that
  long slower = 0;        // layouts that the bound rules out, now that the best is known
  long predicted = 0;     // whole steps
  Bytes least;            // no layout holds less, whatever is recomputed
  std::string refusal;    // the first reason why a plan could not be built on a layout
  Seconds bound;          // no plan of any layout that fits takes less
  ParallelLayout lowest;  // whose floor that is
  LayoutFloor floor;
};

// Told of what is being searched, and which share of that part is done.
using SearchProgress = std::function<void(std::string_view part, double done)>;
inline constexpr std::array<std::string_view, 4> layout_search_parts{"layouts", "arrangements", "knobs", "finalists"};

struct LayoutQuestion {
  const Experiment& experiment;
  LayoutRequest request;
  Bytes limit;                           // of device memory that may be used
  std::function<void(Plan&)> hold = {};  // sets the knobs that the user has fixed; empty: none
  SearchProgress say = {};
};

class LayoutSearch {
 public:
  explicit LayoutSearch(LayoutQuestion question);

  // The best plans of the whole space, one for each layout, the fastest first; those that fit alone. Arrangements begin
  // with the plans of these systems.
  std::vector<LaidOutPlan> best(const std::vector<System>& systems, std::size_t count);

  // One of these systems with its own best layout among the most promising ones for any plan, with the degree,
  // pipeline, recomputing and ZeRO that suit it best. Empty: it fits on none of them. Throws InputError where its plan
  // can be built on none. best() comes first.
  std::optional<LaidOutPlan> best_of(const System& system);
  // The same on one layout.
  std::optional<LaidOutPlan> best_of(const System& system, const ParallelLayout& layout);

  // The estimate of a plan with other costs, over that with the question's own.
  std::vector<double> ratios(const std::vector<LaidOutPlan>& plans, const Shared<Calibration>& costs);

  // The floor of one of the layouts that may fit. best() comes first.
  std::optional<LayoutFloor> floor_of(const ParallelLayout& layout) { return floors_->of(layout); }

  // Whether a plan answers the question as it was asked. Padded messages train the same tokens only where each expert
  // takes equally many, so they are an answer if the user has set them; systems that pad have rows of their own.
  bool may_be_answer(const Plan& plan) const;

  LayoutSearchReport report() const {
    LayoutSearchReport report = report_;
    report.looked_at = costs_.looked_at();
    return report;
  }

 private:
  struct Arranged {
    std::string system;
    LaidOutPlan plan;
  };
  struct Promising {
    ParallelLayout layout;
    Seconds time;
  };

  void say(std::string_view part, std::size_t done, std::size_t all) const {
    if (question_.say) question_.say(part, static_cast<double>(done) / static_cast<double>(all));
  }
  void look_at_layouts(const Plan& base);
  std::vector<LaidOutPlan> ways_of(const System& system, const ParallelLayout& layout);
  enum class Detail { Quick, Whole };
  std::optional<LaidOutPlan> estimated(const Experiment& e, const ParallelLayout& layout, const Plan& plan,
                                       Detail detail);
  std::optional<LaidOutPlan> best_piped(const Experiment& e, const ParallelLayout& layout, const Plan& plan,
                                        const PlannerChoice& choices);
  std::vector<Plan> recomputing(Plan plan) const;
  std::optional<LaidOutPlan> fitting(const ParallelLayout& layout, const Plan& plan, const PlannerChoice& choices = {});
  std::optional<LaidOutPlan> arranged(const ParallelLayout& layout, const Plan& base,
                                      const std::vector<System>& systems);
  PlanSpace open_space(const Experiment& e, const LaidOutPlan& plan) const;
  bool improve_by(const std::vector<const Setting*>& change, const Experiment& e, LaidOutPlan& best);
  bool improve_by_one(const std::vector<Axis>& axes, const Experiment& e, LaidOutPlan& best);
  bool improve_by_two(const std::vector<Axis>& axes, const Experiment& e, LaidOutPlan& best);
  LaidOutPlan improved(LaidOutPlan from, bool pairs);
  void improve_best(std::vector<LaidOutPlan>& found);
  void polish(LaidOutPlan& best);
  void let_plan(LaidOutPlan& best, const PlannerChoice& planner, GradSync sync);
  std::vector<LaidOutPlan> predicted_best(std::vector<LaidOutPlan> found, std::size_t count);
  long predict(LaidOutPlan& plan);  // its whole step
  bool holds(const Plan& plan) const;
  std::vector<Plan> held(std::vector<Plan> plans, const Experiment& e);
  std::optional<Plan> with_what_goes_with_it(const Plan& from, const Plan& changed, const Experiment& e);
  bool fits(const LaidOutPlan& plan) const;
  bool planned_whole(const LaidOutPlan& plan) const;
  bool small() const;

  LayoutQuestion question_;
  StageCostTable costs_;
  PipelineOrders orders_;
  NearestPlans nearest_;
  std::size_t likely_ = 0;  // how much the last plan that was made to fit recomputes
  LayoutSearchReport report_;
  std::vector<Promising> promising_;   // layouts that fit with the search's own plan, the fastest first
  std::optional<FloorSearch> floors_;  // of all layouts that are not too large
  std::vector<LaidOutPlan> predicted_;
  std::vector<Arranged> arranged_;  // each system's best on each of the most promising
};

}  // namespace dovetail::planners

// SPDX-License-Identifier: Apache-2.0
// The fastest way to train a model on a cluster: layout, pipeline, memory and plan together.
//
// Every layout is estimated with the search's own plan, memory first: what a smaller micro-batch holds rules larger
// ones out before they are looked at, and rows are recomputed only where a layout does not fit otherwise. The most
// promising layouts are then arranged in every way that the systems have, the best of these are improved knob by knob
// over the whole plan space, the best plan is tried on the other layouts, and the finalists are predicted whole.
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "planners/layouts/floor_search.hpp"
#include "planners/layouts/knob_climb.hpp"
#include "planners/layouts/layout_plans.hpp"

namespace dovetail::planners {

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

// The parts of a search, in order.
inline constexpr std::array<std::string_view, 4> layout_search_parts{"layouts", "arrangements", "knobs", "finalists"};

// Plans that a search begins with, on every promising layout: those of systems, and others.
struct SearchStart {
  std::vector<System> systems = {};
  std::vector<Plan> plans = {};
};

class LayoutSearch {
 public:
  explicit LayoutSearch(LayoutQuestion question);

  // The best plans of the whole space, one for each layout, the fastest first; those that fit alone.
  std::vector<LaidOutPlan> best(const SearchStart& start, std::size_t count);

  // One of these systems with its own best layout among the most promising ones for any plan, with the degree,
  // pipeline, recomputing and ZeRO that suit it best. Empty: it fits on none of them. Throws InputError where its plan
  // can be built on none. best() comes first.
  std::optional<LaidOutPlan> best_of(const System& system);
  // The same on one layout.
  std::optional<LaidOutPlan> best_of(const System& system, const ParallelLayout& layout);

  // The floor of one of the layouts that may fit. best() comes first.
  std::optional<LayoutFloor> floor_of(const ParallelLayout& layout) { return floors_->of(layout); }

  // Whether a plan answers the question as it was asked. Padded messages train the same tokens only where each expert
  // takes equally many, so they are an answer if the user has set them; systems that pad have rows of their own.
  bool may_be_answer(const Plan& plan) const { return plan.pad_messages == base_.pad_messages; }

  // Tells what best() looked at, and the bound, which is looked for now.
  LayoutSearchReport report();

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
    if (plans_.question().say) plans_.question().say(part, static_cast<double>(done) / static_cast<double>(all));
  }
  std::size_t at_most(std::size_t limit, std::size_t all) const;
  void look_at_layouts(const std::vector<ParallelLayout>& all);
  std::vector<LaidOutPlan> arranged(const ParallelLayout& layout, const SearchStart& start);
  void improve_best(std::vector<LaidOutPlan>& found);
  std::vector<LaidOutPlan> predicted_best(std::vector<LaidOutPlan> found, std::size_t count);
  void plan_whole(LaidOutPlan& best);
  void let_plan(LaidOutPlan& best, const PlannerChoice& planner, GradSync sync);
  std::vector<LaidOutPlan> ways_of(const System& system, const ParallelLayout& layout);

  LayoutPlans plans_;
  KnobClimb climb_{plans_};
  Plan base_ = plans_.held(Plan());  // that layouts are looked at with
  LayoutSearchReport report_;
  std::optional<Seconds> best_time_;
  std::vector<Promising> promising_;   // layouts that fit with the search's own plan, the fastest first
  std::optional<FloorSearch> floors_;  // of all layouts that are not too large
  std::vector<Arranged> arranged_;     // each system's best on each of the most promising
};

}  // namespace dovetail::planners

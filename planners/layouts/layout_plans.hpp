// SPDX-License-Identifier: Apache-2.0
// Plans on the layouts of one question: estimated, made to fit the memory, predicted whole; always with the knobs that
// the user has fixed.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "planners/layouts/layout.hpp"
#include "planners/layouts/plan_limits.hpp"
#include "planners/search/nearest_plan.hpp"
#include "planners/steps/step_model.hpp"
#include "planners/task/planner.hpp"

namespace dovetail::planners {

// Told of what is being searched, and which share of that part is done.
using SearchProgress = std::function<void(std::string_view part, double done)>;

struct LayoutQuestion {
  const Experiment& experiment;
  LayoutRequest request;
  Bytes limit;                           // of device memory that may be used
  std::function<void(Plan&)> hold = {};  // sets the knobs that the user has fixed; empty: none
  SearchProgress say = {};
  // Finds the planners that systems name, and the search's own for short steps. Null: no planner is asked.
  const Planner& (*find_planner)(std::string_view name) = nullptr;
  // The layouts to look at, those of the same groups with small micro-batches first; empty: all that the request
  // leaves.
  std::vector<ParallelLayout> only = {};
  std::shared_ptr<StepModel> steps = std::make_shared<StepModel>();
  AsRun as_run = {};  // plans that a framework does not run as they are, are left out; empty: every plan can be run
};

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

inline bool faster_by_estimate(const LaidOutPlan& a, const LaidOutPlan& b) {
  return a.estimate.time < b.estimate.time;
}

class LayoutPlans {
 public:
  explicit LayoutPlans(LayoutQuestion question);

  const LayoutQuestion& question() const { return question_; }
  Experiment laid_out(const ParallelLayout& layout) const { return with_layout(question_.experiment, layout); }
  bool small() const;                            // whole steps can be predicted as easily as estimated
  bool is_short(const LaidOutPlan& plan) const;  // few enough layers x micro-batches for planners that look at all
  bool fits(const LaidOutPlan& plan) const;

  // The plan with the user's knobs. Partitioned gradients whose slices are open are reduced after the step until the
  // whole step is predicted, which slices them.
  Plan held(Plan plan) const;
  bool holds(const Plan& plan, const Experiment& laid_out) const;
  // The plan that the framework runs in its place, where there is one.
  Plan as_run(const Plan& plan, const Experiment& laid_out) const;
  // The changed plan, with what makes it legal beside the changes. Empty: nothing was found.
  std::optional<Plan> nearest(const Plan& from, const Plan& changed, const Experiment& laid_out);

  // None where the plan is refused, a cost is missing, or the user has fixed other knobs.
  std::optional<LaidOutPlan> estimated(const Experiment& laid_out, const ParallelLayout& layout, const Plan& plan,
                                       Detail detail = Detail::Whole);

  // With as little recomputed as fits, in the fastest way through the pipeline. Without anything that fits, the plan
  // that holds least, or none where state alone is too large.
  std::optional<LaidOutPlan> fitting(const ParallelLayout& layout, const Plan& plan,
                                     const PlannerChoice& choices = every_schedule());

  // Predicts the whole step. Returns the layers that were built for it, once for each micro-batch.
  long predict(LaidOutPlan& plan);
  // Whether the plan's predicted step fits and is faster than that of the best one, which it then becomes.
  bool take_if_faster(LaidOutPlan plan, LaidOutPlan& best);

 private:
  std::vector<Plan> held(std::vector<Plan> plans, const Experiment& laid_out);
  std::vector<Plan> recomputing(Plan plan) const;
  std::optional<LaidOutPlan> best_piped(const Experiment& laid_out, const ParallelLayout& layout, const Plan& plan,
                                        const PlannerChoice& choices);
  void predict_unsliced(LaidOutPlan& plan, const Experiment& laid_out);

  LayoutQuestion question_;
  NearestPlans nearest_;
  std::size_t likely_ = 0;  // how much the last plan that was made to fit recomputes
  bool to_be_sliced_;       // the user wants partitioned gradients and leaves their slices open
};

}  // namespace dovetail::planners

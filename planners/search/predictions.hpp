// SPDX-License-Identifier: Apache-2.0
// Whole plans as the analytic model sees them, each looked at once, and the fastest of them that fits the memory.
#pragma once
#include <map>
#include <vector>

#include "planners/search/plan_kinds.hpp"
#include "planners/search/search_time.hpp"
#include "planners/task/planner.hpp"

namespace dovetail::planners {

// One plan of the space in full.
struct Prediction {
  Plan plan;
  Seconds time;
  Bytes peak;  // 0: not looked at, because a faster plan fits
};

class Predictions {
 public:
  Predictions(const PlanningTask& task, Bytes limit) : task_(task), limit_(limit) {}

  // The time of the plan; `never` where the task does not allow it, or its costs are not known. `always`: looks at its
  // memory too where it is too slow to be chosen.
  Seconds predict(Plan plan, bool always = false);

  const std::vector<Prediction>& all() const { return plans_; }
  long layers() const { return layers_; }    // of all predicted plans, once for each micro-batch built: the work done
  long refused() const { return refused_; }  // how many need more memory than there is
  Seconds best() const { return best_; }     // time of the fastest that fits; `never`: none does
  const Plan* fastest_fitting() const;       // null: none fits

  // Whether plans that hold the same rows over were too large by these rows alone.
  bool too_large(const Plan& plan) const;

  // All that fit, the fastest first; where none fits, the one that lacks least.
  std::vector<Prediction> fastest_first() const;

  // Plans of which no other is both faster and smaller, the fastest first.
  std::vector<FrontPoint> front() const;

 private:
  bool fits(const Prediction& p) const { return p.peak > Bytes(0) && p.peak <= limit_; }
  std::vector<Prediction> sorted() const;

  const PlanningTask& task_;
  const Bytes limit_;
  long layers_ = 0, refused_ = 0;
  Seconds best_ = never;
  std::vector<Plan> seen_;  // those without a prediction too
  std::vector<Prediction> plans_;
  std::map<decltype(memory_kind(Plan{})), bool> too_large_;
};

}  // namespace dovetail::planners

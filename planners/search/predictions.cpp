// SPDX-License-Identifier: Apache-2.0
#include "planners/search/predictions.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "planners/steps/held_over.hpp"
#include "planners/task/contest.hpp"

namespace dovetail::planners {

Seconds Predictions::predict(Plan plan, bool always) {
  if (std::ranges::find(seen_, plan) != seen_.end()) {
    const auto before = std::ranges::find(plans_, plan, &Prediction::plan);
    return before != plans_.end() ? before->time : never;
  }
  seen_.push_back(plan);
  if (!allowed(task_, plan)) return never;
  Prediction p{std::move(plan), {}, {}};
  const Experiment& e = task_.experiment;
  const std::optional<Seconds> time = if_answered([&] { return task_.steps->time(e, p.plan); });
  if (!time) return never;
  p.time = *time;
  layers_ += static_cast<long>(e.workload.layers) * task_.steps->built(e, p.plan);
  if (always || faster(p.time, best_)) p.peak = task_.steps->peak(e, p.plan);
  if (p.peak <= limit_) {
    if (p.peak > Bytes(0)) best_ = std::min(best_, p.time);
  } else {
    ++refused_;
    bool& too_large = too_large_.try_emplace(memory_kind(p.plan), false).first->second;
    too_large = too_large || held_over(task_.steps->step(e, p.plan).schedule()) > limit_;
  }
  plans_.push_back(std::move(p));
  return plans_.back().time;
}

const Plan* Predictions::fastest_fitting() const {
  const Prediction* best = nullptr;
  for (const Prediction& p : plans_)
    if (fits(p) && (best == nullptr || p.time < best->time)) best = &p;
  return best == nullptr ? nullptr : &best->plan;
}

bool Predictions::too_large(const Plan& plan) const {
  const auto kind = too_large_.find(memory_kind(plan));
  return kind != too_large_.end() && kind->second;
}

std::vector<Prediction> Predictions::sorted() const {
  std::vector<Prediction> plans = plans_;
  std::ranges::stable_sort(plans, {}, &Prediction::time);
  return plans;
}

std::vector<Prediction> Predictions::fastest_first() const {
  const std::vector<Prediction> plans = sorted();
  std::vector<Prediction> fitting;
  std::ranges::copy_if(plans, std::back_inserter(fitting), [&](const Prediction& p) { return fits(p); });
  if (fitting.empty() && !plans.empty()) fitting.push_back(*std::ranges::min_element(plans, {}, &Prediction::peak));
  return fitting;
}

std::vector<FrontPoint> Predictions::front() const {
  std::vector<FrontPoint> front;
  for (const Prediction& p : sorted())
    if (p.peak > Bytes(0) && (front.empty() || p.peak < front.back().memory)) front.push_back({p.time, p.peak, p.plan});
  return front;
}

}  // namespace dovetail::planners

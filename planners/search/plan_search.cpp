// SPDX-License-Identifier: Apache-2.0
#include "planners/search/plan_search.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "planners/search/frontier.hpp"
#include "planners/search/layer_samples.hpp"
#include "planners/search/less_memory.hpp"
#include "planners/search/plan_space.hpp"
#include "planners/search/polish.hpp"
#include "planners/search/volume.hpp"
#include "planners/task/contest.hpp"

namespace dovetail::planners {
namespace {

constexpr long least_budget = 4000;

// Says in which order the parts of the space are looked into, and how a part is divided.
class Search {
 public:
  Search(const PlanningTask& task, Bytes limit, long budget)
      : task_(task), space_(plan_space(task)), limit_(limit), budget_(budget), extra_(budget / 2) {}

  SearchResult run(const std::vector<Plan>& known) {
    for (const Plan& plan : known)
      if (allowed(task_, plan)) predictions_.predict(plan);
    add_volumes(space_.keeping);
    const bool arrived = estimated_ && predictions_.fastest_fitting() != nullptr;
    if (!arrived) dive();
    bool restoring = false;
    while (!arrived && predictions_.layers() < budget_) {
      // Restoring makes a plan slower, so it is only looked at where plans without are too large.
      if (!restoring && (predictions_.refused() > 0 || space_.keeping.empty())) {
        restoring = true;
        add_volumes(space_.restoring);
        if (predictions_.refused() > 0 && !find_room()) break;
      }
      if (frontier_.empty()) break;
      const Candidate candidate = frontier_.pop();
      if (beaten(candidate.bound)) continue;
      if (candidate.level < Level::Sampled && samples_.taken() >= extra_)
        frontier_.leave_out(candidate);
      else
        expand(candidate);
    }
    frontier_.leave_out_rest();
    if (frontier_.unexplored() < predictions_.best()) polish_best();
    const auto predicted = static_cast<long>(predictions_.all().size());
    spread_memory();
    return finish(predicted);
  }

 private:
  std::optional<StepEstimate> estimate_of(const Plan& plan) const {
    return estimated_ ? task_.estimate(plan) : std::nullopt;
  }

  // Whether a plan need not be predicted by its estimate: it is too large, or clearly slower than the best so far. An
  // order by costs would have to be built whole.
  bool unpromising(const Plan& plan) const {
    const std::optional<StepEstimate> step = estimate_of(plan);
    if (!step) return false;
    if (plan.is_ordered_by_costs() || step->held > limit_) return true;
    const Plan* best = predictions_.fastest_fitting();
    const std::optional<StepEstimate> of_best = best != nullptr ? estimate_of(*best) : std::nullopt;
    return of_best && step->time > of_best->time * clearly_slower;
  }

  bool beaten(Seconds bound) const { return !faster(bound, predictions_.best()); }

  // The first volume, that of most published systems, is looked into before others.
  void push(const Volume& volume, Seconds bound, Level level, std::size_t at, int forward = 0, int backward = 0) {
    const bool first = &volume == &volumes_.front().first;
    frontier_.push({first ? Seconds(0) : bound, bound, level, at, forward, backward});
  }

  void expand(const Candidate& candidate) {
    switch (candidate.level) {
      case Level::Volume:
        return expand_volume(candidate.at);
      case Level::Structure:
        return expand_structure(candidate.at);
      case Level::Degrees:
        return expand_degrees(candidate);
      case Level::Sampled:
      case Level::Reduced:
        return expand_sampled(candidate);
    }
  }

  void add_volumes(const Axis& restores) {
    for (Plan& plan : combinations(task_.base, space_.volumes)) {
      std::optional<Volume> volume = bounds_.volume_of(std::move(plan));
      if (!volume) continue;
      volumes_.emplace_back(std::move(*volume), &restores);
      push(volumes_.back().first, volumes_.back().first.floor(), Level::Volume, volumes_.size() - 1);
    }
  }

  void expand_volume(std::size_t at) {
    const auto& [volume, restores] = volumes_[at];
    for (const Plan& arranged : combinations(volume.plan(), space_.arrangements))
      for (const Setting& restore : *restores) {
        Plan plan = arranged;
        restore(plan);
        if (refusal(plan, task_.experiment)) continue;
        structures_.push_back({plan, &volume});
        push(volume, volume.floor(plan, 0, 0), Level::Structure, structures_.size() - 1);
      }
  }

  void expand_structure(std::size_t at) {
    Structure& s = structures_[at];
    if (s.plan.split == Split::Peers) return push_degrees(at, 1, 1);
    if (samples_.separable(s.plan)) {
      for (int forward : samples_.fastest_forward(s, [this](Seconds bound) { return beaten(bound); })) {
        const Seconds chain = samples_.sample(s, forward, forward)->forward.chain;
        for (int backward : space_.backward_degrees) push_degrees(at, forward, backward, chain);
      }
      return;
    }
    const bool tied = space_.tied || s.plan.scope == Scope::Block;
    for (int forward : space_.forward_degrees)
      for (int backward : space_.backward_degrees)
        if (!tied || forward == backward) push_degrees(at, forward, backward);
  }

  void push_degrees(std::size_t at, int forward, int backward, Seconds chain = Seconds(0)) {
    const Structure& s = structures_[at];
    push(*s.volume, s.volume->floor(s.plan, forward, backward, chain), Level::Degrees, at, forward, backward);
  }

  void expand_degrees(const Candidate& c) {
    Structure& s = structures_[c.at];
    const auto [forward, backward] = samples_.passes(s, c.forward, c.backward);
    if (forward == nullptr || backward == nullptr) return;
    const StepBound& steps = s.volume->steps();
    const Seconds bound = std::max(c.bound, steps.of(forward->forward, backward->backward));
    const Seconds rank = std::max(bound, expected_time(steps, *forward, *backward));
    frontier_.push({rank, bound, Level::Sampled, c.at, c.forward, c.backward});
  }

  // Partitioned gradients are the most general; what they lead to tells when the other ways are worth a look.
  void expand_sampled(const Candidate& c) {
    if (unpromising(plan_of(c))) return frontier_.leave_out(c);
    const auto [least, others] = predict_ways(c, c.level == Level::Sampled);
    if (c.level != Level::Sampled || !others) return;
    const Seconds rank = least < never ? std::max(c.rank, least) : c.rank;
    frontier_.push({rank, c.bound, Level::Reduced, c.at, c.forward, c.backward});
  }

  Seconds reduced_after(const Candidate& c) {
    Structure& s = structures_[c.at];
    const auto [forward, backward] = samples_.passes(s, c.forward, c.backward);
    // Gradients of an order by readiness are reduced as soon as they exist.
    if (forward == nullptr || backward == nullptr || s.plan.order == Order::ReadyFirst) return c.bound;
    return s.volume->steps().reduced_after(forward->forward, backward->backward);
  }

  Plan plan_of(const Candidate& c) const {
    Plan plan = structures_[c.at].plan;
    plan.forward_degree = c.forward;
    plan.backward_degree = c.backward;
    return plan;
  }

  // The least time of the ways to reduce gradients, partitioned ones or the others; and whether there are more.
  std::pair<Seconds, bool> predict_ways(const Candidate& c, bool partitioned) {
    const Structure& s = structures_[c.at];
    const Plan plan = plan_of(c);
    std::pair<Seconds, bool> result{never, false};
    if (predictions_.too_large(plan)) return result;
    for (Plan& way : gradient_plans(plan, space_, task_.experiment, s.volume->steps().times()))
      if (way.grad_sync == GradSync::After && beaten(reduced_after(c)))
        continue;
      else if ((way.grad_sync == GradSync::Partitioned) == partitioned)
        result.first = std::min(result.first, predictions_.predict(std::move(way)));
      else
        result.second = true;
    return result;
  }

  // A good plan to begin with, since it rules out much by floors alone: the most promising volume, the best
  // structure of each order by two of its degrees.
  void dive() {
    if (frontier_.empty()) return;
    expand_volume(frontier_.pop().at);
    std::map<Order, Candidate> best;
    for (std::size_t at = 0; at < structures_.size(); ++at)
      for (int wanted : {2, 4}) {
        Structure& s = structures_[at];
        const int forward = nearest_degree(space_.forward_degrees, wanted),
                  backward = nearest_degree(space_.backward_degrees, wanted);
        if (s.plan.split == Split::Peers) continue;
        if (forward != backward && (space_.tied || s.plan.scope == Scope::Block)) continue;
        const LayerSample* sample = samples_.sample(s, forward, backward);
        if (sample == nullptr) continue;
        const Candidate candidate{
            expected_time(s.volume->steps(), *sample, *sample), Seconds(0), Level::Sampled, at, forward, backward};
        const auto [first, added] = best.try_emplace(s.plan.order, candidate);
        if (!added && candidate.rank < first->second.rank) first->second = candidate;
      }
    for (const auto& [order, candidate] : best)
      if (!unpromising(plan_of(candidate))) predict_ways(candidate, true);
  }

  // By half as much work again.
  void polish_best() {
    if (estimated_) return vary_best();
    const long end = predictions_.layers() + extra_;
    const auto look_at = [&](Plan plan) {
      if (predictions_.layers() < end) predictions_.predict(std::move(plan));
      return predictions_.layers() < end;
    };
    polish(task_, space_, look_at, [this] { return predictions_.fastest_fitting(); });
  }

  // Tries what estimates do not know near the best plan: slices of gradients, and an order by readiness, which lets
  // micro-batches meet, where few enough layers are built for it.
  void vary_best() {
    constexpr long few = 1024;  // layers of all micro-batches, by choice
    const Plan* best = predictions_.fastest_fitting();
    if (best == nullptr) return;
    Plan ready = *best;
    reduce_in_each_way(*best);
    if (static_cast<long>(task_.experiment.workload.layers) * ready.micro_batches > few) return;
    ready.order = Order::ReadyFirst;
    for (const Scope scope : {ready.scope, Scope::Moe}) {
      ready.scope = scope;
      predictions_.predict(ready);
    }
    reduce_in_each_way(*predictions_.fastest_fitting());
  }

  void reduce_in_each_way(Plan plan) {
    plan = without_choices(std::move(plan));
    plan.grad_sync = GradSync::After;
    if (const auto times = if_answered([&] { return layer_times(task_.experiment, plan); }))
      for (Plan& way : gradient_plans(plan, space_, task_.experiment, *times)) predictions_.predict(std::move(way));
  }

  // Looks for any plan that fits, near all that were too large. False: there is none.
  bool find_room() {
    const std::size_t before = predictions_.all().size();
    const auto found = [this] { return predictions_.fastest_fitting() != nullptr; };
    spread_memory();
    for (std::size_t i = 0; i < before && !found() && predictions_.layers() < budget_ + extra_; ++i)
      spread_memory(predictions_.all()[i].plan, true);
    if (found()) return true;
    std::vector<Plan> plans;
    for (const auto& [volume, restores] : volumes_) plans.push_back(volume.plan());
    return !weights_exceed(plans, task_.experiment, limit_);
  }

  // The best plan with every way to restore, to have what takes less memory too.
  void spread_memory() {
    const std::vector<Prediction>& all = predictions_.all();
    if (all.empty()) return;
    const Plan* best = predictions_.fastest_fitting();
    spread_memory(best != nullptr ? *best : std::ranges::min_element(all, {}, &Prediction::time)->plan, false);
  }
  void spread_memory(const Plan& from, bool least) {
    for (Plan& plan : smaller(plans_of_less_memory(from, space_, predictions_.refused() > 0, least)))
      predictions_.predict(std::move(plan), true);
  }

  // The plans that by estimate take clearly less memory than every faster one, and less than twice the time of the
  // fastest; all if one is not estimated.
  std::vector<Plan> smaller(std::vector<Plan> plans) const {
    std::vector<std::pair<StepEstimate, const Plan*>> estimated;
    for (const Plan& plan : plans)
      if (const std::optional<StepEstimate> step = estimate_of(plan)) estimated.emplace_back(*step, &plan);
    if (estimated.size() < plans.size()) return plans;
    std::ranges::stable_sort(estimated, {}, [](const auto& each) { return each.first.time; });
    std::vector<Plan> left;
    Bytes least(1e300);
    constexpr double less = .95, slow = 2;
    for (const auto& [step, plan] : estimated)
      if (step.peak < less * least && step.time < slow * estimated.front().first.time) {
        left.push_back(*plan);
        least = step.peak;
      }
    return left;
  }

  SearchResult finish(long predicted) const {
    const Seconds best = predictions_.best();
    return {predictions_.fastest_first(),
            predictions_.front(),
            {space_.words, space_.points(), predicted, predictions_.refused(), best,
             std::min(frontier_.unexplored(), best)}};
  }

  const PlanningTask& task_;
  const PlanSpace space_;
  const Bytes limit_;
  const bool estimated_ = climbs(task_);
  const long budget_, extra_;  // in predicted layers; extra: also how many layers may be sampled
  VolumeBounds bounds_{task_.experiment};
  LayerSamples samples_{task_, space_};
  Predictions predictions_{task_, limit_};
  Frontier frontier_;
  std::deque<std::pair<Volume, const Axis*>> volumes_;  // with the ways to restore that their structures take
  std::deque<Structure> structures_;
};

}  // namespace

bool climbs(const PlanningTask& task) {
  return task.by_estimate && task.experiment.parallelism.pp > 1 && StepModel::is_worth_estimating(task.experiment);
}

long search_budget(const Experiment& e) {
  constexpr long most = 20'000, plans = 30;
  const long micro_batches = e.parallelism.pp > 1 ? e.workload.batch : 1;
  return std::clamp(plans * e.workload.layers * micro_batches, least_budget,
                    e.parallelism.pp > 1 ? most : least_budget);
}

SearchResult search_plans(const PlanningTask& task, const std::vector<Plan>& known, Bytes limit,
                          std::optional<long> budget) {
  return Search(task, limit, budget.value_or(climbs(task) ? least_budget : search_budget(task.experiment))).run(known);
}

}  // namespace dovetail::planners

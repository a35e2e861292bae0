#include "planners/search/plan_search.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <queue>

#include "models/base/errors.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "models/question/volumes.hpp"
#include "models/time/analytic_backend.hpp"
#include "models/time/memory.hpp"
#include "planners/contest.hpp"
#include "planners/search/held_over.hpp"
#include "planners/search/plan_kinds.hpp"
#include "planners/search/polish.hpp"
#include "planners/search/step_bound.hpp"

namespace dovetail::planners {
namespace {

// Times closer than this differ by rounding only.
constexpr double rounding = 1e-12;
constexpr Seconds never(1e300);

class Search {
 public:
  Search(const PlanningTask& task, Bytes limit, long budget)
      : task_(task),
        space_(plan_space(task)),
        limit_(limit),
        budget_(budget),
        samples_given_(budget / 2),
        samples_(budget / 2) {}

  SearchResult run(const std::vector<Plan>& known) {
    for (const Plan& plan : known)
      if (allowed(task_, plan)) predict(plan);
    add_volumes(space_.keeping);
    dive();
    bool restoring = false;
    while (budget_ > 0) {
      // Restoring makes a plan slower, so it is only looked at where plans without are too large.
      if (!restoring && (refused_ > 0 || space_.keeping.empty())) {
        restoring = true;
        add_volumes(space_.restoring);
        if (refused_ > 0) {
          const std::vector<Prediction> before = plans_;
          spread_memory();
          for (const Prediction& p : before)
            if (fastest_fitting() == nullptr && budget_ > -samples_given_) spread_memory(p.plan, true);
          if (fastest_fitting() == nullptr && hopeless()) break;
        }
      }
      if (queue_.empty()) break;
      const Item item = queue_.top();
      queue_.pop();
      if (beaten(item.bound)) continue;
      if (item.level < Level::Sampled && samples_ <= 0)
        unexplored_ = std::min(unexplored_, item.bound);
      else
        expand(item);
    }
    for (; !queue_.empty(); queue_.pop()) unexplored_ = std::min(unexplored_, queue_.top().bound);
    if (unexplored_ < best_) polish_best();
    const long spent = predicted_;
    spread_memory();
    return finish(unexplored_, spent);
  }

 private:
  enum class Level { Volume, Structure, Degrees, Sampled, Reduced };
  struct Item {
    Seconds rank;   // what it is expected to lead to: its bound, until a layer of it has been looked at
    Seconds bound;  // of all that it stands for
    long number;    // the first of equals comes first
    Level level;
    std::size_t at;  // of volumes_ or structures_
    int forward = 0, backward = 0;
    friend bool operator<(const Item& a, const Item& b) {  // of two the larger is later
      return a.rank != b.rank ? a.rank > b.rank : a.number > b.number;
    }
  };
  struct Volume {
    Plan plan;
    const StepBound* steps;
    LayerFloor floor;
    const Axis* restores;
    std::array<StreamFloor, comm_streams_names.size()> streams{};

    const StreamFloor& streams_of(const Plan& of) const { return streams[static_cast<std::size_t>(of.comm_streams)]; }
  };
  struct Structure {
    Plan plan;
    std::size_t volume;
    std::map<std::pair<int, int>, std::optional<LayerSample>> samples;
  };

  bool beaten(Seconds bound) const { return bound >= best_ * (1 - rounding); }

  // The first volume, that of most published systems, is looked into before others.
  void push(Seconds bound, Level level, std::size_t at, int forward = 0, int backward = 0) {
    const bool first = (level == Level::Volume ? at : structures_[at].volume) == 0;
    queue_.push({first ? Seconds(0) : bound, bound, next_++, level, at, forward, backward});
  }

  // --- volumes: what ops there are ---
  void add_volumes(const Axis& restores) {
    for (Plan& plan : combinations(task_.base, space_.volumes)) {
      plan.forward_degree = plan.backward_degree = 1;
      plan.backward_degrees.clear();
      if (plan.grad_sync == GradSync::Partitioned && plan.gradient_slices.empty()) plan.grad_sync = GradSync::After;
      Plan simplest = plan;
      simplest.scope = Scope::Moe;
      simplest.split = Split::Capacity;
      simplest.restore = Restore::Keep;
      simplest.buffers = Buffers::PerChunk;
      if (refusal(simplest, task_.experiment)) continue;
      std::unique_ptr<StepBound>& steps = steps_[volume_kind(plan)];
      try {
        if (!steps) steps = std::make_unique<StepBound>(task_.experiment, plan);
      } catch (const InputError&) {  // as in predict()
        continue;
      }
      volumes_.push_back({plan, steps.get(), steps->floor(plan), &restores, {}});
      Plan any = volumes_.back().plan;
      any.scope = Scope::Block;  // which has the lowest
      Seconds least = never;
      for (const auto& [name, streams] : comm_streams_names) {
        any.comm_streams = simplest.comm_streams = streams;
        volumes_.back().streams[static_cast<std::size_t>(streams)] = steps->streams(simplest);
        least = std::min(least, floor_of(volumes_.back(), any, 0, 0));
      }
      push(least, Level::Volume, volumes_.size() - 1);
    }
  }

  // Of degrees; 0: of any. `chain`: what a forward pass takes at least, if that is known.
  Seconds floor_of(const Volume& v, const Plan& plan, int forward, int backward, Seconds chain = Seconds(0)) const {
    return v.steps->of(v.streams_of(plan), std::max(chain, pass_floor(v, plan, v.floor.forward, forward)),
                       pass_floor(v, plan, v.floor.backward, backward));
  }

  static Seconds pass_floor(const Volume& v, const Plan& plan, const PassFloor& floor, int degree) {
    if (degree == 0 || plan.scope == Scope::Block || plan.split == Split::Peers)
      return floor.hidden(std::max(degree, 1));
    const auto capacity = static_cast<double>(v.steps->capacity());
    return floor.at(degree, std::floor(capacity / degree) / capacity);
  }

  // --- structures: how they are arranged ---
  void expand_volume(std::size_t at) {
    const std::vector<Plan> arranged = combinations(volumes_[at].plan, space_.arrangements);
    for (const Plan& plan : arranged)
      for (const Setting& restore : *volumes_[at].restores) {
        Plan with = plan;
        restore(with);
        if (!refusal(with, task_.experiment)) {
          structures_.push_back({with, at, {}});
          push(floor_of(volumes_[at], with, 0, 0), Level::Structure, structures_.size() - 1);
        }
      }
  }

  // Do the passes not depend on one another's degree?
  bool separable(const Plan& p) const {
    return p.scope != Scope::Block && p.restore == Restore::Keep && p.buffers == Buffers::PerChunk && !space_.tied &&
           p.micro_batches == 1 && task_.experiment.parallelism.pp == 1;
  }

  void expand_structure(std::size_t at) {
    const Plan plan = structures_[at].plan;
    if (plan.split == Split::Peers) return push_degrees(at, 1, 1);
    if (separable(plan)) {
      for (int forward : fastest_forward(at)) {
        const Seconds chain = sampled(at, forward, forward)->forward.chain;
        for (int backward : space_.backward_degrees) push_degrees(at, forward, backward, chain);
      }
      return;
    }
    const bool tied = space_.tied || plan.scope == Scope::Block;
    for (int forward : space_.forward_degrees)
      for (int backward : space_.backward_degrees)
        if (!tied || forward == backward) push_degrees(at, forward, backward);
  }

  void push_degrees(std::size_t at, int forward, int backward, Seconds chain = Seconds(0)) {
    const Structure& s = structures_[at];
    push(floor_of(volumes_[s.volume], s.plan, forward, backward, chain), Level::Degrees, at, forward, backward);
  }

  // By what any arrangement takes first, until that alone is no faster. What is ordered by readiness may be ordered
  // otherwise in the whole step: then all that may be faster there.
  std::vector<int> fastest_forward(std::size_t at) {
    const Plan plan = structures_[at].plan;
    const Volume& v = volumes_[structures_[at].volume];
    std::vector<std::pair<Seconds, int>> degrees;
    for (int degree : space_.forward_degrees)
      degrees.emplace_back(pass_floor(v, plan, v.floor.forward, degree), degree);
    std::ranges::stable_sort(degrees, {}, &std::pair<Seconds, int>::first);
    std::vector<std::pair<const LayerSample*, int>> samples;
    const LayerSample* best = nullptr;
    for (const auto& [floor, degree] : degrees) {
      if (beaten(floor_of(v, plan, degree, 0)) || (best != nullptr && floor >= best->forward.alone)) break;
      const LayerSample* sample = sampled(at, degree, degree);
      if (sample == nullptr) continue;
      samples.emplace_back(sample, degree);
      if (best == nullptr || sample->forward.alone < best->forward.alone * (1 - rounding)) best = sample;
    }
    std::vector<int> fastest;
    for (const auto& [sample, degree] : samples)
      if (sample == best ||
          (plan.order == Order::ReadyFirst && sample->forward.chain < best->forward.alone * (1 - rounding)))
        fastest.push_back(degree);
    return fastest;
  }

  // A good plan to begin with, since it rules out much by floors alone: the most promising volume, the best
  // structure of each order by two of its degrees.
  void dive() {
    if (queue_.empty()) return;
    const std::size_t volume = queue_.top().at;
    queue_.pop();
    expand_volume(volume);
    const StepBound& steps = *volumes_[volume].steps;
    std::map<Order, Item> best;
    for (std::size_t at = 0; at < structures_.size(); ++at)
      for (int wanted : {2, 4}) {
        const Plan& plan = structures_[at].plan;
        const int forward = nearest(space_.forward_degrees, wanted),
                  backward = nearest(space_.backward_degrees, wanted);
        if (plan.split == Split::Peers) continue;
        if (forward != backward && (space_.tied || plan.scope == Scope::Block)) continue;
        const LayerSample* sample = sampled(at, forward, backward);
        if (sample == nullptr) continue;
        const Item item{expected(steps, *sample, *sample), Seconds(0), 0, Level::Sampled, at, forward, backward};
        const auto [first, added] = best.try_emplace(plan.order, item);
        if (!added && item.rank < first->second.rank) first->second = item;
      }
    for (const auto& [order, item] : best) predict_ways(item, true);
  }

  static int nearest(const std::vector<int>& degrees, int wanted) {
    return *std::ranges::min_element(degrees, {}, [wanted](int degree) { return std::abs(degree - wanted); });
  }

  // --- degrees ---
  const LayerSample* sampled(std::size_t at, int forward, int backward) {
    Structure& s = structures_[at];
    auto [place, added] = s.samples.try_emplace({forward, backward});
    if (added) {
      Plan plan = s.plan;
      plan.forward_degree = forward;
      plan.backward_degree = backward;
      --samples_;
      if (refusal(plan, task_.experiment)) return nullptr;
      try {
        place->second = volumes_[s.volume].steps->sample(plan);
      } catch (const InputError&) {  // as in predict()
      }
    }
    return place->second ? &*place->second : nullptr;
  }

  std::pair<const LayerSample*, const LayerSample*> samples_of(const Item& item) {
    const bool apart = separable(structures_[item.at].plan);
    const LayerSample* forward = sampled(item.at, item.forward, apart ? item.forward : item.backward);
    return {forward, apart ? sampled(item.at, item.backward, item.backward) : forward};
  }

  void expand_degrees(const Item& item) {
    const Structure& s = structures_[item.at];
    const auto [forward, backward] = samples_of(item);
    if (forward == nullptr || backward == nullptr) return;
    const StepBound& steps = *volumes_[s.volume].steps;
    const Seconds bound = std::max(item.bound, steps.of(forward->forward, backward->backward));
    const Seconds rank = std::max(bound, expected(steps, *forward, *backward));
    queue_.push({rank, bound, next_++, Level::Sampled, item.at, item.forward, item.backward});
  }

  // As a bound, but of passes with their contention.
  static Seconds expected(const StepBound& steps, const LayerSample& forward, const LayerSample& backward) {
    PassSample there = forward.forward, back = backward.backward;
    there.chain = there.alone;
    back.chain = back.alone;
    return steps.of(there, back);
  }

  // Partitioned gradients are the most general; what they lead to tells when the other ways are worth a look.
  void expand_sampled(const Item& item) {
    const auto [least, others] = predict_ways(item, item.level == Level::Sampled);
    if (item.level != Level::Sampled || !others) return;
    const Seconds rank = least < never ? std::max(item.rank, least) : item.rank;
    queue_.push({rank, item.bound, next_++, Level::Reduced, item.at, item.forward, item.backward});
  }

  Seconds reduced_after(const Item& item) {
    const Structure& s = structures_[item.at];
    const auto [forward, backward] = samples_of(item);
    // What is ordered by readiness is reduced as soon as it exists.
    if (forward == nullptr || backward == nullptr || s.plan.order == Order::ReadyFirst) return item.bound;
    return volumes_[s.volume].steps->reduced_after(forward->forward, backward->backward);
  }

  // The least time of the ways to reduce gradients, partitioned ones or the others; and whether there are more.
  std::pair<Seconds, bool> predict_ways(const Item& item, bool partitioned) {
    const Structure& s = structures_[item.at];
    Plan plan = s.plan;
    plan.forward_degree = item.forward;
    plan.backward_degree = item.backward;
    std::pair<Seconds, bool> result{never, false};
    if (const auto kind = too_large_.find(memory_kind(plan)); kind != too_large_.end() && kind->second) return result;
    const LayerTimes& times = volumes_[s.volume].steps->times();
    for (Plan& way : gradient_plans(plan, space_, task_.experiment, times))
      if (way.grad_sync == GradSync::After && beaten(reduced_after(item)))
        continue;
      else if ((way.grad_sync == GradSync::Partitioned) == partitioned)
        result.first = std::min(result.first, predict(std::move(way)));
      else
        result.second = true;
    return result;
  }

  void expand(const Item& item) {
    switch (item.level) {
      case Level::Volume:
        return expand_volume(item.at);
      case Level::Structure:
        return expand_structure(item.at);
      case Level::Degrees:
        return expand_degrees(item);
      case Level::Sampled:
      case Level::Reduced:
        return expand_sampled(item);
    }
  }

  // --- whole plans ---
  // `always`: its memory too, where it is too slow to be chosen.
  Seconds predict(Plan plan, bool always = false) {
    if (std::ranges::find(seen_, plan) != seen_.end()) {
      const auto before = std::ranges::find(plans_, plan, &Prediction::plan);
      return before != plans_.end() ? before->time : never;
    }
    seen_.push_back(plan);
    if (!allowed(task_, plan)) return never;
    PricedSchedule priced;
    try {
      priced = price_plan(task_.experiment, plan);
    } catch (const InputError&) {  // a cost is missing, or the network cannot be folded for its groups
      return never;
    }
    budget_ -= static_cast<long>(task_.experiment.workload.layers) * plan.micro_batches;
    ++predicted_;
    const Timeline timeline = AnalyticBackend().run(priced);
    Prediction p{std::move(plan), {}, {}};
    for (const Interval& op : timeline.ops) p.time = std::max(p.time, op.finish);
    if (always || p.time < best_ * (1 - rounding))
      p.peak = memory_use(*priced.schedule, timeline, Arenas::LeftOut).peak;
    if (p.peak <= limit_) {
      best_ = p.peak > Bytes(0) ? std::min(best_, p.time) : best_;
    } else {
      ++refused_;
      bool& too_large = too_large_.try_emplace(memory_kind(p.plan), false).first->second;
      too_large = too_large || held_over(*priced.schedule) > limit_;
    }
    plans_.push_back(std::move(p));
    return plans_.back().time;
  }

  // By half as much work again.
  void polish_best() {
    const long end = budget_ - samples_given_;
    const auto look_at = [&](Plan plan) {
      if (budget_ > end) predict(std::move(plan));
      return budget_ > end;
    };
    polish(task_, space_, look_at, [this] { return fastest_fitting(); });
  }

  // Do not even the weights fit, however they are sharded?
  bool hopeless() const {
    std::map<std::pair<ExpertSharding, int>, Plan> shardings;
    for (const Volume& v : volumes_) shardings.try_emplace({v.plan.expert_sharding, v.plan.sharding_repeats}, v.plan);
    return !shardings.empty() && std::ranges::all_of(shardings, [this](const auto& sharding) {
      Plan plan = sharding.second;
      plan.grad_sync = GradSync::After;
      plan.gradient_slices.clear();
      plan.backward_degrees.clear();
      plan.forward_degree = plan.backward_degree = 1;
      return !refusal(plan, task_.experiment) && held_over(build_schedule(task_.experiment, plan), false) > limit_;
    });
  }

  // The best plan with every way to restore, to have what takes less memory too.
  void spread_memory() {
    if (plans_.empty()) return;
    const Plan* best = fastest_fitting();
    const Plan from = best != nullptr ? *best : std::ranges::min_element(plans_, {}, &Prediction::time)->plan;
    spread_memory(from);
  }

  // `least`: only what takes the least.
  void spread_memory(const Plan& from, bool least = false) {
    Axis all = space_.keeping;
    all.insert(all.end(), space_.restoring.begin(), space_.restoring.end());
    const int most = refused_ > 0 ? space_.forward_degrees.back() : nearest(space_.forward_degrees, 8);
    for (const Setting& restore : all)
      for (int degree : {from.forward_degree, most}) {
        Plan plan = from;
        restore(plan);
        const bool ring = plan.buffers != Buffers::PerChunk;
        const bool smallest = plan.buffers == Buffers::Single;  // of more chunks smaller still
        if ((least && !smallest) || degree != (smallest ? most : from.forward_degree)) continue;
        if (ring && plan.order == Order::DispatchFirst) plan.order = Order::Alternate;
        if (plan.split == Split::Capacity) plan.forward_degree = plan.backward_degree = degree;
        plan.backward_degrees.clear();
        predict(std::move(plan), true);
      }
  }

  const Plan* fastest_fitting() const {
    const Prediction* best = nullptr;
    for (const Prediction& p : plans_)
      if (fits(p) && (best == nullptr || p.time < best->time)) best = &p;
    return best == nullptr ? nullptr : &best->plan;
  }

  bool fits(const Prediction& p) const { return p.peak > Bytes(0) && p.peak <= limit_; }

  SearchResult finish(Seconds bound, long predicted) {
    SearchResult result;
    std::ranges::stable_sort(plans_, {}, &Prediction::time);
    std::ranges::copy_if(plans_, std::back_inserter(result.plans), [&](const Prediction& p) { return fits(p); });
    Bytes least(1e300);
    for (const Prediction& p : plans_)
      if (p.peak > Bytes(0) && p.peak < least) {
        result.front.push_back({p.time, p.peak, p.plan});
        least = p.peak;
      }
    if (result.plans.empty() && !plans_.empty())
      result.plans.push_back(*std::ranges::min_element(plans_, {}, &Prediction::peak));
    result.proof = {space_.words, space_.points(), predicted, refused_, best_, bound};
    if (const Plan* best = fastest_fitting(); best != nullptr) result.proof.best = result.plans.front().time;
    result.proof.bound = std::min(result.proof.bound, result.proof.best);
    return result;
  }

  const PlanningTask& task_;
  const PlanSpace space_;
  const Bytes limit_;
  long budget_;
  const long samples_given_;
  long samples_, next_ = 0, predicted_ = 0, refused_ = 0;
  Seconds best_ = never, unexplored_ = never;
  std::map<decltype(volume_kind(Plan{})), std::unique_ptr<StepBound>> steps_;
  std::vector<Volume> volumes_;
  std::vector<Structure> structures_;
  std::priority_queue<Item> queue_;
  std::vector<Plan> seen_;
  std::vector<Prediction> plans_;
  std::map<decltype(memory_kind(Plan{})), bool> too_large_;
};

}  // namespace

long search_budget(const Experiment& e) {
  constexpr long least = 4000, most = 20'000, plans = 30;
  const long micro_batches = e.parallelism.pp > 1 ? e.workload.batch : 1;
  return std::clamp(plans * e.workload.layers * micro_batches, least, e.parallelism.pp > 1 ? most : least);
}

SearchResult search_plans(const PlanningTask& task, const std::vector<Plan>& known, Bytes limit,
                          std::optional<long> budget) {
  return Search(task, limit, budget.value_or(search_budget(task.experiment))).run(known);
}

}  // namespace dovetail::planners

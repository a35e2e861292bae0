// How what the backward pass needs comes back (MPipeMoE eq. 10), and the degree with it: the fastest plan that fits the
// device's memory. The closed form picks a strategy; the evaluator, which sees what overlaps, has the last word.
#include <fmt/format.h>

#include <algorithm>

#include "models/base/names.hpp"
#include "models/plan/expert_sharding.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/price/overlap.hpp"
#include "models/price/price.hpp"
#include "models/question/capacity.hpp"
#include "models/question/experiment_rules.hpp"
#include "planners/analytic_evaluator.hpp"
#include "planners/closed_form/restore_cost.hpp"
#include "planners/contest.hpp"
#include "planners/search/plan_space.hpp"

namespace dovetail::planners {
namespace {

std::string_view name_of(Restore restore) {
  return name_in(restore_names, restore);
}

std::string gib(Bytes bytes) {
  return fmt::format("{:.4g} GiB", bytes.value() / (1 << 30));
}

std::string describe_restore(const Plan& plan) {
  return fmt::format("{} at degree {}", name_of(plan.restore), describe_degrees(plan));
}

// If the base plan restores, keeping is no candidate. Kept tensors are not overwritten, so keeping has no rings, while
// strategies without rings would save little.
std::vector<Plan> bases(const PlanningTask& task) {
  if (task.experiment.workload.phases == Phases::ForwardOnly) return {task.base};
  std::vector<Plan> plans;
  for (const auto& [name, restore] : restore_names) {
    if (restore == Restore::Keep && task.base.restore != Restore::Keep) continue;
    if ((offloads_input(restore) || offloads_hidden(restore)) && !task.experiment.calibration->copy) continue;
    Plan& plan = plans.emplace_back(task.base);
    plan.restore = restore;
    if (restore == Restore::Keep)
      plan.buffers = Buffers::PerChunk;
    else if (task.base.buffers == Buffers::PerChunk)
      plan.buffers = Buffers::Double;
  }
  return plans;
}

struct Candidate {
  Plan plan;
  Bytes peak;
};

std::vector<Candidate> candidates(const PlanningTask& task) {
  std::vector<Candidate> all;
  for (const Plan& base : bases(task))
    for (Plan& plan : degree_plans(task, base)) {
      const Bytes peak = peak_memory(task.experiment, plan);
      all.push_back({std::move(plan), peak});
    }
  return all;
}

// Says what would make a plan fit that does not: more chunks, else fewer tokens.
std::string remedy(const PlanningTask& task, Plan plan) {
  constexpr std::int64_t most_chunks = 256;  // more would take minutes to look at, and their latencies would decide
  Experiment e = task.experiment;
  const std::int64_t rows = std::min(most_chunks, layer_volumes(e, plan).capacity);
  plan.backward_degrees.clear();
  for (Plan more = plan; more.forward_degree <= rows / 2;) {
    more.forward_degree = more.backward_degree = 2 * more.forward_degree;
    if (fits(more, e)) return fmt::format("degree {} would fit", more.forward_degree);
  }
  Workload& w = e.workload;
  while (w.batch > 1 || w.sequence > 1) {
    (w.batch > 1 ? w.batch : w.sequence) /= 2;
    try {
      resolve_capacity(e);
      validate(e);
    } catch (const InputError&) {
      break;
    }
    const auto most = static_cast<int>(layer_volumes(e, plan).capacity);
    plan.forward_degree = std::min(plan.forward_degree, most);
    plan.backward_degree = std::min(plan.backward_degree, most);
    if (fits(plan, e)) return fmt::format("batch {} with sequence {} would fit", w.batch, w.sequence);
  }
  return fmt::format("neither up to {} chunks nor fewer tokens would make it fit", most_chunks);
}

std::string describe_missing(const PlanningTask& task, const Candidate& nearest) {
  const Device& device = task.experiment.cluster.device;
  const Bytes missing = nearest.peak - device.memory;
  return fmt::format("no plan fits the {} of a {}: {} takes least and misses {} ({:.0f} bytes); {}", gib(device.memory),
                     device.name, describe_restore(nearest.plan), gib(missing), missing.value(),
                     remedy(task, nearest.plan));
}

// Says which strategy equation 10 picks among those that fit at the chosen degrees.
std::string describe_paper(const PlanningTask& task, const Plan& best, const std::vector<Candidate>& fitting) {
  const Candidate* pick = nullptr;
  Seconds least;
  std::string costs;
  for (const Candidate& c : fitting) {
    Plan same = c.plan;
    same.restore = best.restore;
    same.buffers = best.buffers;
    if (same != best) continue;
    const Seconds cost =
        restore_cost(price_plan(task.experiment, c.plan), interference_of(task.experiment, c.plan.comm_sms));
    costs += fmt::format("{}{} {:.4g}", costs.empty() ? "" : ", ", name_of(c.plan.restore), 1e3 * cost.value());
    if (pick == nullptr || cost < least) {
      pick = &c;
      least = cost;
    }
  }
  return fmt::format("equation 10 picks {}{} ({} ms)", name_of(pick->plan.restore),
                     pick->plan.restore == best.restore ? " too" : "", costs);
}

class MemoryReuse final : public Planner {
 public:
  std::string_view name() const override { return "memory_reuse"; }

  PlanChoice choose(const PlanningTask& task, const Evaluator& evaluate) const override {
    Contest contest(evaluate);
    std::vector<Candidate> all = candidates(task);
    if (all.empty()) all.push_back({simplest(task), peak_memory(task.experiment, simplest(task))});
    const Candidate nearest = *std::ranges::min_element(all, {}, &Candidate::peak);
    const auto proposed = all.size();
    std::erase_if(all, [&](const Candidate& c) { return c.peak > task.experiment.cluster.device.memory; });
    for (const Candidate& c : all) contest.propose(c.plan);
    if (contest.empty()) {
      contest.propose(nearest.plan);
      return contest.finish(name(), describe_missing(task, nearest), describe_restore);
    }
    const Plan& best = contest.best();
    std::string reason = fmt::format("{}, the fastest of {} plans that fit {} ({} do not)", describe_restore(best),
                                     all.size(), gib(task.experiment.cluster.device.memory), proposed - all.size());
    if (task.experiment.workload.phases == Phases::Training) reason += "; there " + describe_paper(task, best, all);
    return contest.finish(name(), std::move(reason), describe_restore);
  }
};

}  // namespace

const Planner& memory_reuse() {
  static const MemoryReuse planner;
  return planner;
}

}  // namespace dovetail::planners

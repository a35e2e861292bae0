// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/online.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <tuple>

#include "models/base/build_info.hpp"
#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/files/experiment_json.hpp"
#include "models/files/plan_json.hpp"
#include "models/plan/collectives/all_to_all.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "models/question/capacity.hpp"
#include "models/question/experiment_rules.hpp"
#include "models/question/volumes.hpp"
#include "models/time/analytic_backend.hpp"
#include "planners/online/bucketed_search.hpp"
#include "planners/online/parallelism_router.hpp"
#include "planners/task/contest.hpp"

namespace dovetail::bench {
namespace {

using planners::OnlinePlanner;

constexpr std::string_view router = "parallelism_router";

// Whether a planner chooses how ranks share experts too.
bool chooses_sharding(std::string_view planner) {
  return planner == planners::joint_rules.name;
}

// Whether a planner chooses the all-to-all with the degree, as Tutel's does.
bool chooses_exchange(std::string_view planner) {
  return chooses_sharding(planner) || planner == planners::BucketRules{}.name ||
         planner == planners::published_rules.name;
}

std::vector<OnlineStrategy> of_degrees(const std::vector<int>& degrees, const Plan& base) {
  std::vector<OnlineStrategy> strategies;
  std::set<int> ascending(degrees.begin(), degrees.end());
  for (int degree : ascending) {
    OnlineStrategy each{std::to_string(degree), base};
    each.plan.forward_degree = each.plan.backward_degree = degree;
    strategies.push_back(std::move(each));
  }
  return strategies;
}

// Degrees with each all-to-all. Among ranks that are all inside a node, or one to a node, there is one exchange
// whatever the algorithm.
std::vector<OnlineStrategy> of_exchanges(const Experiment& e, const System& system, Plan plan) {
  std::vector<OnlineStrategy> strategies;
  for (AllToAll algorithm : {AllToAll::Linear, AllToAll::TwoDimensional}) {
    plan.all_to_all = algorithm;
    if (algorithm != AllToAll::Linear && all_to_all_steps(plan, e).empty()) continue;
    for (OnlineStrategy& each : of_degrees(system.planner.degrees, plan)) {
      each.name = fmt::format("{} {}", name_in(all_to_all_names, algorithm), each.name);
      strategies.push_back(std::move(each));
    }
  }
  return strategies;
}

// The choices that a system leaves open, as this planner sees them.
std::vector<OnlineStrategy> of_system(const Experiment& e, const System& system, const Plan& base,
                                      std::string_view planner) {
  std::vector<OnlineStrategy> strategies;
  if (planner == router) {
    for (const Plan& plan : planners::sharding_plans(e, base))
      strategies.push_back({planners::sharding_name(plan), plan});
    return strategies;
  }
  if (!chooses_exchange(planner)) return of_degrees(system.planner.degrees, base);
  if (!chooses_sharding(planner)) return of_exchanges(e, system, base);
  const std::vector<Plan> shardings = planners::sharding_plans(e, base);
  for (const Plan& sharded : shardings)
    for (OnlineStrategy& each : of_exchanges(e, system, sharded)) {
      each.name = fmt::format("{} {}", planners::sharding_name(sharded), each.name);
      strategies.push_back(std::move(each));
    }
  return strategies;
}

std::vector<OnlineStrategy> all_strategies(const Question& question, std::string_view planner) {
  std::vector<OnlineStrategy> strategies;
  for (const Candidate& candidate : question.candidates) {
    Plan base = candidate.system.plan;
    apply_to_plan(question.request, question.experiment, base);
    if (candidate.plan_file) {
      strategies.push_back({candidate.system.name, base});
      continue;
    }
    const auto keeps_settings = [&](const OnlineStrategy& strategy) {
      Plan plan = strategy.plan;
      apply_to_plan(question.request, question.experiment, plan);
      return plan == strategy.plan;
    };
    std::vector<OnlineStrategy> open = of_system(question.experiment, candidate.system, base, planner);
    std::erase_if(open, [&](const OnlineStrategy& strategy) { return !keeps_settings(strategy); });
    if (open.empty()) open.push_back({"as set", base});
    for (OnlineStrategy& each : open) {
      if (question.candidates.size() > 1) each.name = candidate.system.name + " " + each.name;
      strategies.push_back(std::move(each));
    }
  }
  return strategies;
}

// Why a strategy cannot be used; empty: it can.
std::string objection(const Plan& plan, const std::vector<Experiment>& at, const Experiment& largest,
                      Backend& backend) {
  for (const Experiment& e : at)
    if (const auto refused = planners::refusal(plan, e)) return refused->what();
  const PricedSchedule p = price_plan(largest, plan);
  backend.prepare(largest);
  const Bytes peak = memory_use(*p.schedule, backend.run(p)).peak, memory = largest.cluster.device.memory;
  if (peak <= memory) return "";
  constexpr double gib = 1 << 30;
  return fmt::format("its largest step needs {:.2f} of {:.2f} GiB", peak.value() / gib, memory.value() / gib);
}

// FNV-1a: tells experiments apart, in any build.
std::uint64_t fingerprint(std::string_view text) {
  std::uint64_t hash = 14695981039346656037U;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

// Times of an experiment under each strategy, kept for steps that are alike.
class StepTimes {
 public:
  StepTimes(const std::vector<OnlineStrategy>& strategies, const Replay& how) : strategies_(strategies), how_(how) {}

  const std::vector<Seconds>& operator()(const Experiment& e) {
    const Workload& w = e.workload;
    std::vector<Seconds>& times = known_[{w.batch, w.sequence, w.top_k, w.capacity_rows, w.capacity_factor}];
    if (times.empty() || !w.routing.layers.empty()) {
      times.clear();
      const planners::Evaluator evaluate = how_.evaluator(e);
      for (const OnlineStrategy& strategy : strategies_) times.push_back(evaluate(strategy.plan));
    }
    return times;
  }

 private:
  const std::vector<OnlineStrategy>& strategies_;
  const Replay& how_;
  std::map<std::tuple<int, int, int, std::int64_t, double>, std::vector<Seconds>> known_;
};

}  // namespace

Experiment at_step(const Experiment& experiment, const TraceStep& step) {
  if (experiment.model.dense())
    throw InputError(Location{"", 0, 0, "/model"},
                     fmt::format("{} has no experts, whose loads online planners look at", experiment.model.name));
  Experiment e = experiment;
  Workload& w = e.workload;
  w.batch = step.batch.value_or(w.batch);
  w.sequence = step.sequence.value_or(w.sequence);
  w.top_k = step.top_k.value_or(w.top_k);
  w.capacity_factor = step.capacity_factor.value_or(w.capacity_factor);
  if (!step.layers.empty()) {
    w.routing.kind = RoutingKind::Trace;
    w.routing.layers = spread_over_experts(step.layers, e.model.experts);
  }
  w.capacity_rows = w.capacity_factor > 0 ? 0 : 1;  // any, until it is known that loads can be told
  validate(e);
  resolve_capacity(e);
  return e;
}

planners::StepSize size_of(const Experiment& experiment, const Experiment& at_step) {
  const Workload &usual = experiment.workload, &w = at_step.workload;
  planners::StepSize size;
  size.tokens = static_cast<double>(w.batch) * w.sequence / (static_cast<double>(usual.batch) * usual.sequence);
  size.capacity_factor = w.capacity_factor * w.top_k / usual.top_k;
  if (w.capacity_factor > 0) return size;
  const LayerVolumes v = layer_volumes(at_step);
  size.capacity_factor = static_cast<double>(v.capacity * v.experts) / static_cast<double>(usual.top_k * v.tokens);
  return size;
}

std::vector<OnlineStrategy> online_strategies(const Question& question, std::string_view planner,
                                              const std::vector<Experiment>& at, std::vector<std::string>& notes) {
  const auto load = [&](const Experiment& e) { return size_of(question.experiment, e).load(); };
  const Experiment& largest = *std::ranges::max_element(at, {}, load);
  AnalyticBackend backend;
  std::vector<OnlineStrategy> usable;
  std::string why;
  for (OnlineStrategy& strategy : all_strategies(question, planner)) {
    why = objection(strategy.plan, at, largest, backend);
    if (why.empty())
      usable.push_back(std::move(strategy));
    else
      notes.push_back(fmt::format("{} left out: {}", strategy.name, why));
  }
  return usable;
}

std::unique_ptr<OnlinePlanner> online_planner(std::string_view name, const Experiment& experiment,
                                              const std::vector<OnlineStrategy>& strategies, double bucket_length,
                                              std::string_view times_from) {
  planners::OnlineSettings settings;
  settings.bucket_length = bucket_length;
  nlohmann::ordered_json all = to_json(experiment);
  for (const char* changing : {"capacity_factor", "capacity_rows"}) all["workload"].erase(changing);
  for (const OnlineStrategy& strategy : strategies) {
    settings.strategies.push_back(strategy.name);
    all["plans"].push_back(to_json(strategy.plan));
    if (name == router) settings.lines.push_back(planners::size_line(experiment, strategy.plan));
  }
  // Reported times are the same under any version of this program; its own are not.
  const std::string by = times_from == "reported" ? "" : " by dovetail " + build_info().version;
  settings.context = fmt::format("{} on {}, times {}{}, {:016x}", experiment.model.name, experiment.cluster.name,
                                 times_from, by, fingerprint(all.dump()));
  return planners::make_online(name, std::move(settings));
}

std::vector<OnlineStep> replay(const Experiment& experiment, const std::vector<Experiment>& at,
                               const std::vector<OnlineStrategy>& strategies, OnlinePlanner& planner,
                               const Replay& how) {
  StepTimes times(strategies, how);
  std::mt19937_64 engine(static_cast<std::uint64_t>(how.seed));
  std::normal_distribution<double> normal;
  constexpr double smallest = .1;  // of the true time that noise leaves
  ProgressLine progress("plan", static_cast<int>(at.size()), how.talk);
  std::vector<OnlineStep> steps;
  for (const Experiment& e : at) {
    const planners::StepSize size = size_of(experiment, e);
    OnlineStep step{size.capacity_factor, size.tokens, times(e), planner.choose(size), {}};
    step.reported = step.time() * std::max(smallest, 1 + how.noise * normal(engine));
    planner.report(step.reported);
    steps.push_back(std::move(step));
    progress.done();
  }
  return steps;
}

}  // namespace dovetail::bench

// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "bench/cli/outputs.hpp"
#include "bench/pipeline/evaluate.hpp"
#include "bench/pipeline/explain_pairs.hpp"
#include "bench/pipeline/repeating_steps.hpp"
#include "bench/pipeline/step_ranges.hpp"
#include "models/base/errors.hpp"
#include "models/files/plan_json.hpp"
#include "models/price/price.hpp"
#include "models/price/speed_events.hpp"
#include "models/results/ranking.hpp"
#include "models/time/analytic_backend.hpp"
#include "planners/steps/step_prediction.hpp"

namespace dovetail::bench {
namespace {

using planners::LaidOutPlan;
using planners::StepPrediction;

// A plan on an experiment with its groups, and the way to find out how long others take.
struct Explained {
  const Experiment& experiment;
  const Plan& plan;
  StepOf step_of;
  FusedQuestion fused = {};     // with the same groups
  planners::AsRun as_run = {};  // of the framework that alternatives are for; empty: of any
};

// The step without the part; none: that takes no time anyway.
using Without = std::function<std::optional<Seconds>(StepPart)>;

void add_parts(const Without& step_without, Explanation& explanation) {
  constexpr double least_gain = 5e-4;  // of the step
  const Seconds step = explanation.best.metrics.makespan;
  for (const auto& [name, part] : step_part_names) {
    const std::optional<Seconds> without = step_without(part);
    if (without && *without < step * (1 - least_gain)) explanation.without.push_back({part, *without});
  }
  std::ranges::stable_sort(explanation.without, {}, &WithoutPart::step);
}

// The plan with the rows of its experts in so many chunks.
Plan in_chunks(Plan plan, int chunks) {
  plan.forward_degree = plan.backward_degree = chunks;
  plan.backward_degrees.clear();
  plan.split = Split::Capacity;
  if (chunks > 1 && plan.scope == Scope::Layer) plan.scope = Scope::Moe;
  return plan;
}

// Nothing where the choice cannot be built, or is none of the framework.
void add_alternative(const Explained& explained, OtherChoice choice, const Experiment& experiment, const Plan& plan,
                     Explanation& explanation) try {
  if (explained.as_run && explained.as_run(experiment, plan) != plan) return;
  explanation.alternatives.push_back({choice, explained.step_of(experiment, plan)});
} catch (const InputError&) {
}

void add_alternatives(const Explained& explained, Explanation& explanation) {
  const Plan& plan = explained.plan;
  const bool cut = plan.forward_degree > 1 || plan.backward_degree > 1 || !plan.backward_degrees.empty() ||
                   plan.split == Split::Peers;
  const Experiment& e = explained.experiment;
  if (!e.model.dense())
    add_alternative(explained, cut ? OtherChoice::Uncut : OtherChoice::Cut, e, in_chunks(plan, cut ? 1 : 2),
                    explanation);
  if (!plan.recompute.empty() || plan.restore != Restore::Keep) {
    Plan kept = plan;
    kept.recompute = {};
    kept.restore = Restore::Keep;
    add_alternative(explained, OtherChoice::KeepRows, e, kept, explanation);
  }
  if (e.parallelism.pp > 1) {
    Plan more = plan;
    more.micro_batches *= 2;
    add_alternative(explained, OtherChoice::MoreMicroBatches,
                    planners::with_fewer(e, plan.micro_batches, more.micro_batches), more, explanation);
  }
}

// As many ops in graphs as can be.
void add_graphs(const Explained& explained, Explanation& explanation) {
  if (explained.plan.graphs != Graphs::None) return;
  Plan captured = explained.plan;
  const std::size_t before = explanation.alternatives.size();
  for (const Graphs graphs : {Graphs::All, Graphs::Router, Graphs::Attention}) {
    captured.graphs = graphs;
    if (explanation.alternatives.size() == before)
      add_alternative(explained, OtherChoice::Graphs, explained.experiment, captured, explanation);
  }
}

void add_choices_of_the_host(const Explained& explained, Explanation& explanation) {
  constexpr double least_share = .01;
  const Metrics& m = explanation.best.metrics;
  if (m.launch_bound < m.makespan * least_share) return;
  add_graphs(explained, explanation);
  if (explained.plan.micro_batches % 2 == 0) {
    Plan larger = explained.plan;
    larger.micro_batches /= 2;
    add_alternative(explained, OtherChoice::LargerMicroBatches, explained.experiment, larger, explanation);
  }
  if (const auto fused = explained.fused ? explained.fused() : std::nullopt)
    add_alternative(explained, OtherChoice::FusedKernels, *fused, explained.plan, explanation);
}

// The same for plans that the framework runs as they are.
StepOf step_as_run(const Explained& explained) {
  if (!explained.as_run) return explained.step_of;
  return [&explained](const Experiment& e, const Plan& plan) {
    if (explained.as_run(e, plan) != plan) throw InputError("the framework that plans are for does not run it");
    return explained.step_of(e, plan);
  };
}

void explain_plan(const Explained& explained, Explanation& explanation) {
  explanation.stages = explained.experiment.parallelism.pp;
  explanation.degree = std::max(explained.plan.forward_degree, explained.plan.backward_degree);
  add_alternatives(explained, explanation);
  add_choices_of_the_host(explained, explanation);
  explanation.pairs = explain_pairs(explained.experiment, explained.plan, explanation.best, step_as_run(explained));
}

// "pp 8 in place of 4", knob by knob; `of_best` is the best plan's.
std::vector<std::string> changes(const Plan& other, const Plan& of_best) {
  std::vector<std::string> list;
  for (const Knob& knob : knobs()) {
    const nlohmann::ordered_json there = value_json(knob, other), here = value_json(knob, of_best);
    if (there == here) continue;
    const auto text = [](const nlohmann::ordered_json& v) { return v.is_string() ? v.get<std::string>() : v.dump(); };
    constexpr std::size_t longest = 40;
    const auto is_brief = [&](const nlohmann::ordered_json& v) { return !v.is_array() && text(v).size() <= longest; };
    const bool brief = is_brief(there) && is_brief(here);
    list.push_back(brief ? fmt::format("{} {} in place of {}", knob.name, text(there), text(here))
                         : fmt::format("other {}", knob.name));
  }
  return list;
}

std::vector<std::string> changes(const planners::ParallelLayout& other, const planners::ParallelLayout& of_best) {
  std::vector<std::string> list;
  const auto add = [&](const char* name, int there, int here) {
    if (there != here) list.push_back(fmt::format("{} {} in place of {}", name, there, here));
  };
  const Parallelism &a = other.groups, &b = of_best.groups;
  for (const auto& [name, there, here] :
       {std::tuple{"pp", a.pp, b.pp}, {"mp", a.mp, b.mp}, {"ep", a.ep, b.ep}, {"esp", a.esp, b.esp}})
    add(name, there, here);
  add("micro-batch", other.micro_batch, of_best.micro_batch);
  return list;
}

// "plan on pp 4, mp 8, ep 64, esp 1, micro-batch 2"
std::string plan_on(const planners::ParallelLayout& layout) {
  const Parallelism& p = layout.groups;
  return fmt::format("plan on pp {}, mp {}, ep {}, esp {}, micro-batch {}", p.pp, p.mp, p.ep, p.esp,
                     layout.micro_batch);
}

PricedSchedule priced_again(const SystemResult& result, const Experiment& experiment) {
  PricedSchedule priced = price(result.schedule, experiment);
  inject(experiment.events, priced);
  return priced;
}

// By the analytic backend, whatever timed the result: steps that stand beside each other are of one backend.
ExplainedStep timed_again(const SystemResult& result, const Experiment& experiment) {
  AnalyticBackend backend;
  if (result.backend == backend.name()) return {result.metrics, result.memory.peak};
  const PricedSchedule priced = priced_again(result, experiment);
  const Timeline timeline = backend.run(priced);
  ExplainedStep step{metrics(*result.schedule, timeline), result.memory.peak};
  if (!priced.launch.empty()) step.metrics.launch_bound = launch_bound(*result.schedule, timeline);
  return step;
}

// The whole step, which is built only where it does not repeat itself.
ExplainedStep step_of(const Experiment& experiment, const Plan& plan) {
  if (const std::optional<StepPrediction> step = repeating_step(experiment, plan))
    return {step->metrics(), step->peak()};
  AnalyticBackend backend;
  const SystemResult whole = evaluate(experiment, "", {plan, {}}, backend, Arenas::LeftOut);
  return {whole.metrics, whole.memory.peak};
}

// The fastest other result whose plan or groups are not those of the best one.
const SystemResult* next_best(const Report& report, const SystemResult& best) {
  const SystemResult* next = nullptr;
  for (const SystemResult& result : report.results) {
    const bool same =
        result.plan == best.plan && result.schedule->groups.repeats_tokens() == best.schedule->groups.repeats_tokens();
    if (same || !result.feasible || result.timeline.kind != best.timeline.kind) continue;
    if (next == nullptr || result.metrics.makespan < next->metrics.makespan) next = &result;
  }
  return next;
}

std::optional<Seconds> whole_without(StepPart part, const SystemResult& result, const Experiment& experiment) {
  PricedSchedule priced = priced_again(result, experiment);
  if (!make_free(part, priced)) return std::nullopt;
  std::vector<double> scratch;
  return analytic_makespan(priced, scratch);
}

// The step without each part that takes time, told by few of its micro-batches where these repeat themselves still.
std::map<StepPart, Seconds> steps_without(const SystemResult& result, const Experiment& experiment) {
  std::map<StepPart, Seconds> steps;
  std::vector<StepPart> untold;
  {  // the few make room before anything is priced whole
    const std::optional<StepPrediction> few = repeating_step(experiment, result.plan);
    for (const auto& [name, part] : step_part_names) {
      bool any = !few;
      const auto time =
          few ? few->time_if([&](PricedSchedule& priced) { any = make_free(part, priced); }) : std::nullopt;
      if (any && time)
        steps[part] = *time;
      else if (any)
        untold.push_back(part);
    }
  }
  for (const StepPart part : untold)
    if (const std::optional<Seconds> step = whole_without(part, result, experiment)) steps[part] = *step;
  return steps;
}

}  // namespace

bool is_explained(const Options& options) {
  return options.explain || format_of(options) == Format::Json || !options.html.empty();
}

void add_explanation(const Options& options, Report& report) {
  if (is_explained(options)) report.explanation = explain(report, with_fused_kernels(options, report.experiment));
}

FusedQuestion with_fused_kernels(const Options& options, const Experiment& experiment) {
  if (experiment.framework.unfused.empty()) return {};
  ExperimentRequest request = options.request;
  for (const std::string& option : experiment.framework.unfused)
    request.set.push_back(fmt::format("framework.options.{}=true", option));
  return [request] {
    FilesRead files;
    std::vector<std::string> notes;
    return std::optional(load_experiment(request, files, notes));
  };
}

std::optional<Explanation> explain(const Report& report, const FusedQuestion& fused) {
  const SystemResult* best = fastest(report);
  if (best == nullptr && !report.results.empty()) best = &report.results.front();
  if (best == nullptr || best->schedule == nullptr || !is_by_costs(*best)) return std::nullopt;
  const Experiment experiment = as_run(report.experiment, *best);
  Explanation explanation;
  explanation.name = best->system;
  explanation.limit = experiment.cluster.device.memory;
  if (best->backend != AnalyticBackend().name()) explanation.reported = best->metrics.makespan;
  explanation.best = timed_again(*best, experiment);
  if (const SystemResult* next = next_best(report, *best); next != nullptr && best->feasible) {
    explanation.next = {next->system, timed_again(*next, as_run(report.experiment, *next)),
                        changes(next->plan, best->plan)};
    explanation.next->tied = !surely_slower(next->metrics.makespan, next->range, best->metrics.makespan, best->range);
  }
  const auto fused_as_run = [&]() -> std::optional<Experiment> {
    const std::optional<Experiment> question = fused ? fused() : std::nullopt;
    return question ? std::optional(as_run(*question, *best)) : std::nullopt;
  };
  const std::map<StepPart, Seconds> without = steps_without(*best, experiment);
  add_parts(
      [&](StepPart part) {
        const auto step = without.find(part);
        return step == without.end() ? std::nullopt : std::optional(step->second);
      },
      explanation);
  explain_plan({experiment, best->plan, step_of, fused_as_run}, explanation);
  return explanation;
}

Explanation explain(const Experiment& question, Bytes limit, const std::vector<LaidOutPlan>& best,
                    const FusedQuestion& fused, const planners::AsRun& as_run) {
  const LaidOutPlan& first = best.front();
  const Experiment experiment = with_layout(question, first.layout);
  const auto step = [](const Experiment& e, const Plan& plan) {
    const StepPrediction predicted(e, plan);
    return ExplainedStep{predicted.metrics(), predicted.peak()};
  };
  const auto without = [&](StepPart part) -> std::optional<Seconds> {
    bool any = false;
    const StepPrediction free(experiment, first.plan,
                              [&](PricedSchedule& priced) { any = make_free(part, priced) || any; });
    return any ? std::optional(free.time()) : std::nullopt;
  };
  Explanation explanation;
  explanation.name = "The " + plan_on(first.layout);
  explanation.limit = limit;
  explanation.best = {first.metrics, first.peak};
  if (best.size() > 1) {
    const LaidOutPlan& second = best[1];
    explanation.next = {
        "the " + plan_on(second.layout), {second.metrics, second.peak}, changes(second.layout, first.layout)};
    for (std::string& change : changes(second.plan, first.plan)) explanation.next->changes.push_back(std::move(change));
  }
  const auto fused_laid_out = [&]() -> std::optional<Experiment> {
    const std::optional<Experiment> other = fused ? fused() : std::nullopt;
    return other ? std::optional(with_layout(*other, first.layout)) : std::nullopt;
  };
  add_parts(without, explanation);
  explain_plan({experiment, first.plan, step, fused_laid_out, as_run}, explanation);
  return explanation;
}

}  // namespace dovetail::bench

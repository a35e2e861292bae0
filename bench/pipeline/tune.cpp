// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/tune.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <optional>

#include "bench/pipeline/evaluate.hpp"
#include "bench/pipeline/explain.hpp"
#include "bench/pipeline/for_framework.hpp"
#include "bench/pipeline/layout_advice.hpp"
#include "models/base/errors.hpp"
#include "models/price/calibration.hpp"
#include "models/results/ranking.hpp"
#include "models/time/analytic_backend.hpp"
#include "planners/catalog/registry.hpp"
#include "planners/layouts/layout_search.hpp"
#include "planners/steps/estimated_ratios.hpp"

namespace dovetail::bench {
namespace {

using planners::LaidOutPlan;
using planners::LayoutSearch;
using planners::ParallelLayout;

std::optional<int> of(const std::map<std::string, int>& fixed, const std::string& name) {
  const auto found = fixed.find(name);
  return found == fixed.end() ? std::nullopt : std::optional(found->second);
}

// The share of each part of a search, in order; about what Qwen3-235B and DeepSeek-V3 take on 256 GPUs. Other questions
// have other shares, so that the time left is a guess at first.
constexpr std::array<std::pair<std::string_view, double>, 7> parts{{{planners::layout_search_parts[0], .1},
                                                                    {planners::layout_search_parts[1], .15},
                                                                    {planners::layout_search_parts[2], .1},
                                                                    {planners::layout_search_parts[3], .25},
                                                                    {"systems", .3},
                                                                    {"ranges", .05},
                                                                    {"reasons", .05}}};

// The share of a search that is done with so much of one of its parts.
double share_done(std::string_view part, double done) {
  double before = 0;
  for (const auto& [name, share] : parts) {
    if (name == part) return before + done * share;
    before += share;
  }
  return before;
}

class Tuner {
 public:
  Tuner(const TuneQuestion& asked, const TuneOptions& options, const planners::SearchProgress& say)
      : question_(asked.question),
        global_batch_(asked.global_batch),
        options_(options),
        say_(say),
        limit_((1 - options.memory_margin / 100) * asked.question.experiment.cluster.device.memory),
        request_(request_of(asked)),
        fixed_(fixed_knobs(asked.question)),
        framework_(framework_of(asked, options)),
        search_(layout_question(framework_ ? framework_->as_run() : planners::AsRun(),
                                [this](std::string_view part, double done) { tell(part, done); })) {}

  Report run() {
    const auto start = std::chrono::steady_clock::now();
    Report report{"tune", question_.experiment, {}, {}, {}, question_.notes};
    Tuning& tuning = report.tuning.emplace();
    tuning.global_batch = global_batch_;
    tuning.gpu_watts = options_.gpu_watts;
    tuning.limit = limit_;
    const std::vector<System> systems = all_systems();
    if (framework_) framework_->require_any(systems);
    std::vector<LaidOutPlan> best = search_.best({.systems = systems}, static_cast<std::size_t>(options_.count));
    require_plans();
    if (!best.empty()) compare_systems(report, best);
    best.resize(std::min(best.size(), static_cast<std::size_t>(options_.count)));
    for (const LaidOutPlan& plan : best)
      report.results.push_back(described(plan, framework_ ? "for " + framework_->name() : "dovetail"));
    note_beyond_peak(report);
    set_front(report);
    set_ranges(report, best);
    if (!best.empty() && is_explained(options_)) {
      tell("reasons", 0);
      report.explanation =
          explain(question_.experiment, limit_, best, with_fused_kernels(options_, question_.experiment),
                  framework_ ? framework_->as_run() : planners::AsRun());
    }
    if (report.explanation && report.explanation->next) report.explanation->next->tied = second_is_tied(report);
    set_proof(tuning, best, start);
    if (framework_ && !best.empty()) set_framework(tuning, best.front(), systems);
    return report;
  }

 private:
  static constexpr double share = .6;  // of what a framework can run, where all plans are searched too

  void tell(std::string_view part, double done) const {
    if (say_) say_(part, (framework_ && options_.gains ? share : 1) * share_done(part, done));
  }

  static std::optional<ForOneFramework> framework_of(const TuneQuestion& asked, const TuneOptions& options) {
    if (!options.plans_for) return std::nullopt;
    return ForOneFramework(*options.plans_for, asked.question.experiment, request_of(asked),
                           fixed_knobs(asked.question));
  }

  planners::LayoutQuestion layout_question(planners::AsRun as_run, planners::SearchProgress say) const {
    planners::LayoutQuestion asked{question_.experiment, request_, limit_, fixed_, std::move(say)};
    asked.find_planner = planners::find_planner;
    asked.as_run = std::move(as_run);
    return asked;
  }

  static planners::LayoutRequest request_of(const TuneQuestion& asked) {
    const auto& fixed = asked.fixed;
    planners::LayoutRequest request{asked.global_batch, of(fixed, "pp"),  of(fixed, "mp"),  of(fixed, "dp"),
                                    of(fixed, "ep"),    of(fixed, "esp"), of(fixed, "edp"), {}};
    if (asked.micro_batch > 0) request.micro_batch = asked.micro_batch;
    return request;
  }

  // Throws InputError where nothing could be built at all, which memory has no part in.
  void require_plans() {
    const planners::LayoutSearchReport r = search_.report();
    if (r.layouts == 0)
      throw InputError(
          fmt::format("no layout divides {} GPUs, {} samples and the model as asked; expected other sizes{}",
                      question_.experiment.cluster.gpus(), global_batch_, faults()));
    if (r.estimated == 0 && r.too_large < r.layouts)
      throw InputError(fmt::format("the settings can be built on none of {} layouts{}", r.layouts,
                                   r.refusal.empty() ? "" : ": " + r.refusal));
  }

  std::string faults() const {
    const std::string sizes = sizes_at_fault(question_.experiment, request_);
    return sizes.empty() ? "" : " than " + sizes;
  }

  // Plans that the search begins with: those of all shipped systems and of the candidates.
  std::vector<System> all_systems() const {
    std::vector<System> systems;
    for (const Candidate& candidate : question_.candidates) systems.push_back(candidate.system);
    FilesRead files;
    for (const std::string& name : known_names("systems"))
      if (std::ranges::count(systems, name, &System::name) == 0) systems.push_back(load_system(name, files));
    std::erase_if(systems, [](const System& system) { return system.planner.space == SearchSpace::Plans; });
    return systems;
  }

  // The systems that have rows: those that the framework runs as they are on this layout. The others are noted, with
  // the reason where the user has named systems.
  std::vector<System> compared_systems(const ParallelLayout& layout, Report& report) const {
    const bool named = !options_.systems.empty() || !options_.plans.empty();
    std::vector<System> compared;
    std::vector<std::string> others;
    for (const Candidate& candidate : question_.candidates) {
      const System& system = candidate.system;
      if (system.planner.space == SearchSpace::Plans) continue;
      const std::string why = framework_ ? framework_->refusal(system, layout) : "";
      if (why.empty())
        compared.push_back(system);
      else if (named)
        report.refused.push_back({system.name, fmt::format("{} does not run it: {}", framework_->name(), why)});
      else
        others.push_back(system.name);
    }
    if (!others.empty())
      report.notes.push_back(fmt::format("systems without a row, because {} does not run them as they are: {}",
                                         framework_->name(), fmt::join(others, ", ")));
    return compared;
  }

  // Whatever a system does better than the search is the search's answer too.
  void compare_systems(Report& report, std::vector<LaidOutPlan>& best) {
    const std::vector<System> all = compared_systems(best.front().layout, report);
    std::vector<TunedSystem>& systems = report.tuning->systems;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const System& system = all[i];
      tell("systems", static_cast<double>(i) / static_cast<double>(all.size()));
      try {
        const std::optional<LaidOutPlan> plan = search_.best_of(system);
        if (plan) {
          systems.push_back({described(*plan, system.name), {}});
          take_if_faster(*plan, best);
        } else {
          report.refused.push_back({system.name, "fits on none of the most promising layouts"});
        }
      } catch (const InputError& error) {
        report.refused.push_back({system.name, error.message()});
      }
    }
    const ParallelLayout winner = best.front().layout;
    for (TunedSystem& system : systems) {
      const auto same = std::ranges::find(all, system.own.system, &System::name);
      const std::optional<LaidOutPlan> plan = search_.best_of(*same, winner);
      if (!plan) continue;
      system.on_winners = plan->time;
      take_if_faster(*plan, best);
      if (plan->time < system.own.metrics.makespan) system.own = described(*plan, system.own.system);
    }
    std::ranges::stable_sort(systems, {}, [](const TunedSystem& system) { return system.own.metrics.makespan; });
  }

  void take_if_faster(const LaidOutPlan& plan, std::vector<LaidOutPlan>& best) const {
    if (!search_.may_be_answer(plan.plan)) return;
    const auto same = std::ranges::find(best, plan.layout, &LaidOutPlan::layout);
    if (same != best.end() && same->time <= plan.time) return;
    if (same != best.end()) best.erase(same);
    const auto place = std::ranges::upper_bound(best, plan.time, {}, &LaidOutPlan::time);
    best.insert(place, plan);
  }

  SystemResult described(const LaidOutPlan& plan, const std::string& system) const {
    SystemResult row;
    row.system = system;
    row.groups = plan.layout.groups;
    row.micro_batch = plan.layout.micro_batch;
    row.plan = plan.plan;
    row.backend = AnalyticBackend().name();
    row.metrics = plan.metrics;
    row.throughput = throughput(with_layout(question_.experiment, plan.layout), plan.metrics);
    row.stage_peaks = plan.stage_peaks;
    row.memory.peak = plan.peak;
    row.lower_bound = row.plan_bound = Seconds(std::numeric_limits<double>::quiet_NaN());
    return row;
  }

  // The first will do: what is wrong is the same for all.
  void note_beyond_peak(Report& report) const {
    for (const SystemResult& plan : report.results)
      if (auto note = beyond_peak(plan.system, plan.throughput, question_.experiment)) {
        report.notes.push_back(*std::move(note));
        return;
      }
  }

  // The fastest first.
  static void set_front(Report& report) {
    std::vector<SystemResult> all = report.results;
    for (const TunedSystem& system : report.tuning->systems) all.push_back(system.own);
    std::ranges::stable_sort(all, {}, [](const SystemResult& plan) { return plan.metrics.makespan; });
    std::vector<SystemResult>& front = report.tuning->front;
    for (SystemResult& plan : all)
      if (front.empty() || plan.memory.peak < front.back().memory.peak) front.push_back(std::move(plan));
  }

  // Draws are of the estimates, which take less than a millisecond for each.
  void set_ranges(Report& report, const std::vector<LaidOutPlan>& best) {
    if (options_.draws == 0 || best.empty()) return;
    tell("ranges", 0);
    std::vector<planners::EstimatedRatios::Step> steps;
    for (const LaidOutPlan& plan : best) steps.push_back({with_layout(question_.experiment, plan.layout), plan.plan});
    planners::EstimatedRatios ratios(std::move(steps));
    const std::vector<StepRange> ranges = step_ranges(
        question_.experiment, best.size(),
        [&](Calibration costs) { return ratios(Shared<Calibration>(std::move(costs))); }, options_.draws,
        static_cast<std::uint64_t>(options_.seed));
    report.notes.push_back(range_note(question_.experiment.framework, "estimated step", options_.draws));
    for (std::size_t i = 0; i < best.size(); ++i) report.results[i].range = ranges[i];
  }

  static bool second_is_tied(const Report& report) {
    return std::ranges::count(tied_fastest(report), &report.results[1]) > 0;
  }

  static TuningFloor described(const ParallelLayout& layout, const planners::LayoutFloor& floor) {
    return {layout.groups, layout.micro_batch, floor.time, floor.layers, floor.again, floor.filling};
  }

  void set_proof(Tuning& tuning, const std::vector<LaidOutPlan>& best, std::chrono::steady_clock::time_point start) {
    const planners::LayoutSearchReport r = search_.report();
    tuning.proof = {r.layouts,
                    r.too_large,
                    r.slower,
                    r.estimated,
                    r.looked_at,
                    r.predicted,
                    r.bound,
                    r.least,
                    Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count())};
    tuning.proof.lowest = described(r.lowest, r.floor);
    if (!best.empty())
      if (const auto own = search_.floor_of(best.front().layout))
        tuning.proof.own = described(best.front().layout, *own);
    if (!best.empty() || question_.experiment.cluster.network) return;
    if (const std::optional<int> nodes = enough_nodes(question_.experiment, request_, limit_))
      tuning.proof.enough_gpus = *nodes * question_.experiment.cluster.gpus_per_node;
  }

  // Searches the same question for any plan, to say what the framework cannot do and what it would gain by that.
  void set_framework(Tuning& tuning, const LaidOutPlan& best, const std::vector<System>& systems) const {
    ForFramework& result = tuning.framework.emplace(framework_->described(best));
    if (!options_.gains) return;
    const auto start = std::chrono::steady_clock::now();
    const std::string part = "without the limits of " + framework_->name();
    LayoutSearch search(layout_question({}, [&](std::string_view name, double done) {
      if (say_) say_(part, share + (1 - share) * share_done(name, done));
    }));
    std::vector<LaidOutPlan> all = search.best({.systems = systems}, static_cast<std::size_t>(options_.count));
    all.push_back(best);
    const LaidOutPlan& any = *std::ranges::min_element(all, {}, &LaidOutPlan::time);
    result.any = described(any, "dovetail");
    framework_->add_missing(best, any, limit_, result);
    result.time = Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }

  const Question& question_;
  const int global_batch_;
  const TuneOptions& options_;
  const planners::SearchProgress& say_;
  const Bytes limit_;
  const planners::LayoutRequest request_;
  const std::function<void(Plan&)> fixed_;
  const std::optional<ForOneFramework> framework_;  // none: for any
  LayoutSearch search_;
};

}  // namespace

void add_whole_step(Report& report) {
  if (report.results.empty()) return;
  SystemResult& best = report.results.front();
  const Experiment experiment =
      planners::with_layout(report.experiment, {best.groups, best.micro_batch, best.plan.micro_batches});
  AnalyticBackend backend;
  SystemResult whole = evaluate(experiment, best.system, {best.plan, {}}, backend);
  best.schedule = std::move(whole.schedule);
  best.timeline = std::move(whole.timeline);
  best.metrics = std::move(whole.metrics);
  best.lower_bound = whole.lower_bound;
  best.plan_bound = whole.plan_bound;
  best.memory = whole.memory;
  best.memory_by_stage = memory_by_kind(*best.schedule, best.timeline);
}

Report tune(const TuneQuestion& question, const TuneOptions& options, const planners::SearchProgress& say) {
  return Tuner(question, options, say).run();
}

}  // namespace dovetail::bench

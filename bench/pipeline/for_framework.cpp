// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/for_framework.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

#include "models/base/errors.hpp"
#include "models/files/experiment_file.hpp"
#include "models/files/plan_json.hpp"
#include "planners/layouts/arrangements.hpp"
#include "planners/steps/step_prediction.hpp"

namespace dovetail::bench {
namespace {

using planners::LaidOutPlan;
using planners::ParallelLayout;
using reports::Framework;
using reports::FrameworkFlags;

// In data/frameworks.
const char* profile_of(Framework framework) {
  switch (framework) {
    case Framework::Megatron:
      return "megatron_lm";
    case Framework::DeepSpeed:
      return "deepspeed";
    case Framework::Tutel:
      return "tutel";
    case Framework::Json:
      break;
  }
  throw InternalError("no framework that trains");
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool of_plan(const std::string& sentence) {
  return sentence.starts_with("plan.");
}

// "parallelism.pp 2: PipelineModule cuts ..." -> "parallelism.pp", "2"
std::pair<std::string, std::string> key_and_value(const std::string& sentence) {
  const std::string head = sentence.substr(0, sentence.find(':'));
  const std::size_t space = head.find(' ');
  if (!head.starts_with("parallelism.") || space == std::string::npos) return {head, ""};
  return {head.substr(0, space), head.substr(space + 1)};
}

bool alike(std::optional<Seconds> step, Seconds other) {
  constexpr double rounding = 1e-4;
  return step && std::abs(*step / other - 1) < rounding;
}

// Steps of plans near a given one.
class Neighbours {
 public:
  Neighbours(const Experiment& experiment, const std::function<void(Plan&)>& fixed, Bytes limit)
      : experiment_(experiment), fixed_(fixed), limit_(limit) {}

  struct Step {
    Plan plan;
    Seconds time;
  };
  // The plan on this layout with these changes and with what must go along; nothing where that cannot be built, or does
  // not fit.
  std::optional<Step> step(const ParallelLayout& layout, const Plan& from, const Plan& changed) {
    const Experiment e = with_layout(experiment_, layout);
    const planners::Keeps keeps = planners::keeps_changes(from, changed);
    const auto holds = [&](const Plan& plan) {
      Plan held = plan;
      if (fixed_) fixed_(held);
      return keeps(plan) && held == plan;
    };
    const std::optional<Plan> plan = nearest_.find(changed, e, holds);
    if (!plan) return std::nullopt;
    try {
      const planners::StepPrediction step(e, *plan);
      if (step.peak() > limit_) return std::nullopt;
      return Step{*plan, step.time()};
    } catch (const InputError&) {  // a cost is missing
      return std::nullopt;
    }
  }

 private:
  const Experiment& experiment_;
  const std::function<void(Plan&)>& fixed_;
  const Bytes limit_;
  planners::NearestPlans nearest_;
};

// Other knobs come with one of these, or with the layout.
bool is_listed(const Knob& knob) {
  return knob.group != KnobClass::Pipeline && knob.name != "gradient_slices" && knob.name != "gradient_chunk_bytes";
}

// With the slices or chunks of gradients that their way of reducing takes.
void copy_listed(const Knob& knob, const Plan& from, Plan& to) {
  copy_value(knob, from, to);
  if (knob.name != "grad_sync") return;
  to.gradient_slices = from.gradient_slices;
  to.gradient_chunk_bytes = from.gradient_chunk_bytes;
}

MissingValue missing_knob(const Knob& knob, const LaidOutPlan& best, const LaidOutPlan& any, const Plan& taken,
                          Neighbours& neighbours) {
  MissingValue missing{
      fmt::format("plan.{}", knob.name), value_text(knob, any.plan), value_text(knob, taken), {}, {}, {}};
  Plan with = best.plan, without = any.plan;
  copy_listed(knob, any.plan, with);
  copy_listed(knob, taken, without);
  if (const auto step = neighbours.step(best.layout, best.plan, with)) {
    missing.alone = step->time;
    for (const Knob& other : knobs())
      if (!same_value(other, step->plan, with))
        missing.along.push_back(fmt::format("plan.{} {}", other.name, value_text(other, step->plan)));
  }
  if (const auto step = neighbours.step(any.layout, any.plan, without)) missing.all_but = step->time;
  return missing;
}

// A layout that the framework does not have, with its own plan on it.
MissingValue missing_layout(const std::string& sentence, const LaidOutPlan& best, const LaidOutPlan& any,
                            Neighbours& neighbours) {
  MissingValue missing;
  std::tie(missing.key, missing.value) = key_and_value(sentence);
  Plan plan = best.plan;
  copy_knobs(KnobClass::Pipeline, any.plan, plan);
  plan.recompute = any.plan.recompute;
  plan.zero = any.plan.zero;
  if (const auto step = neighbours.step(any.layout, plan, plan)) missing.alone = step->time;
  return missing;
}

}  // namespace

TuneOptions with_its_costs(TuneOptions options) {
  if (!options.plans_for) return options;
  FilesRead files;
  const bool named = ExperimentFile(options.request, files).reader().has("framework");
  const char* profile = profile_of(*options.plans_for);
  const std::string usual = named ? "" : load_parts(options.request, files).framework.name;
  if (!usual.empty() && usual != profile) options.request.set.push_back(fmt::format("framework={}", profile));
  return options;
}

ForOneFramework::ForOneFramework(Framework framework, const Experiment& experiment, planners::LayoutRequest request,
                                 std::function<void(Plan&)> fixed)
    : framework_(framework), experiment_(experiment), request_(request), fixed_(std::move(fixed)) {
  const FrameworkFlags flags = reports::flags_for(framework, experiment, Plan());
  name_ = flags.framework;
  checked_ = flags.checked;
}

std::string ForOneFramework::text() const {
  return fmt::format("{} ({})", name_, checked_);
}

planners::AsRun ForOneFramework::as_run() const {
  return [framework = framework_](const Experiment& e, const Plan& plan) {
    return reports::as_run_by(framework, e, plan);
  };
}

FrameworkFlags ForOneFramework::flags(const LaidOutPlan& plan) const {
  return reports::flags_for(framework_, with_layout(experiment_, plan.layout), plan.plan);
}

void ForOneFramework::refuse(const std::string& what, const std::string& why) const {
  throw InputError(
      fmt::format("--for {}: {} {}: {}", name_in(reports::framework_names, framework_), text(), what, why));
}

void ForOneFramework::require_any(const std::vector<System>& systems) const {
  const std::vector<ParallelLayout> all = planners::layouts(experiment_, request_);
  if (all.empty()) return;  // which is no matter of the framework
  const planners::PlanLimits limits(fixed_, as_run());
  const std::vector<ParallelLayout> its = limits.layouts(experiment_, request_);
  if (its.empty()) {
    const std::vector<std::string> why =
        reports::flags_for(framework_, with_layout(experiment_, all.front()), Plan()).cannot;
    refuse(fmt::format("runs none of the {} layouts that divide everything", all.size()),
           *std::ranges::find_if_not(why, of_plan));
  }
  if (limits.first_plan(experiment_, its, systems)) return;
  const Experiment e = with_layout(experiment_, its.front());
  Plan plan = limits.as_run(Plan(), e);
  if (fixed_) fixed_(plan);
  const std::vector<std::string> why = reports::flags_for(framework_, e, plan).cannot;
  refuse("does not run what is set", why.empty() ? "these knobs together" : why.front());
}

std::string ForOneFramework::refusal(const System& system, const ParallelLayout& layout) const {
  Experiment e = with_layout(experiment_, layout);
  if (auto own = as_run_by(system, e)) e = *std::move(own);
  for (const Plan& plan : planners::arrangements_of(system, e)) {
    const FrameworkFlags flags = reports::flags_for(framework_, e, plan);
    if (!flags.whole()) return flags.cannot.front();
  }
  return "";
}

ForFramework ForOneFramework::described(const LaidOutPlan& best) const {
  const FrameworkFlags its = flags(best);
  ForFramework result;
  result.key = name_in(reports::framework_names, framework_);
  result.name = name_;
  result.checked = checked_;
  result.arguments = lines_of(its.text);
  result.elsewhere = its.elsewhere;
  return result;
}

// Whether the framework has this value of the knob, though not together with others of the plan.
bool ForOneFramework::runs_alone(const Knob& knob, const LaidOutPlan& any, const reports::TakenPlan& taken) const {
  Experiment e = with_layout(experiment_, any.layout);
  e.parallelism = taken.groups;
  e.workload.batch = taken.batch;
  Plan plan = taken.plan;
  copy_listed(knob, any.plan, plan);
  return std::ranges::none_of(reports::flags_for(framework_, e, plan).cannot, of_plan);
}

void ForOneFramework::add_missing(const LaidOutPlan& best, const LaidOutPlan& any, Bytes limit,
                                  ForFramework& result) const {
  const FrameworkFlags of_any = flags(any);
  result.cannot = of_any.cannot;
  Neighbours neighbours(experiment_, fixed_, limit);
  for (const std::string& sentence : of_any.cannot)
    if (!of_plan(sentence)) result.missing.push_back(missing_layout(sentence, best, any, neighbours));
  const Plan& taken = of_any.taken.plan;
  for (const Knob& knob : knobs())
    if (is_listed(knob) && !same_value(knob, any.plan, taken) && !runs_alone(knob, any, of_any.taken))
      result.missing.push_back(missing_knob(knob, best, any, taken, neighbours));
  std::erase_if(result.missing, [&](const MissingValue& missing) {  // those that change nothing
    return alike(missing.alone, best.time) && alike(missing.all_but, any.time);
  });
  std::ranges::stable_sort(result.missing, {},
                           [&](const MissingValue& missing) { return missing.alone.value_or(Seconds(1e9)); });
}

}  // namespace dovetail::bench

// SPDX-License-Identifier: Apache-2.0
// The answer of tune is the best of its space: an outside climber, which knows nothing of how the search goes, finds
// nothing that is clearly better. It changes one knob of the answer, or two or three that are drawn, to any value that
// the rules allow, and starts again from whatever is faster. It does the same to the answer's plan on other layouts.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <optional>
#include <random>

#include "bench/pipeline/tune.hpp"
#include "models/base/errors.hpp"
#include "models/plan/knob_table.hpp"
#include "planners/layouts/layout.hpp"
#include "planners/steps/refusal.hpp"
#include "planners/steps/step_estimate.hpp"
#include "planners/steps/step_prediction.hpp"

using namespace dovetail;
using namespace dovetail::bench;

namespace {

struct Change {
  std::string name;
  std::function<void(Plan&)> make;
};

void add_counts(const Knob& knob, const CountKnob& count, std::vector<Change>& changes) {
  for (const int n : {0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32})
    if (n >= count.least && n <= count.most)
      changes.push_back({fmt::format("{}={}", knob.name, n), [=](Plan& p) { p.*count.member = n; }});
}

// Every built value of every knob that is searched: those that decide how a step runs, and not what it computes.
std::vector<Change> changes_of_one_knob() {
  std::vector<Change> changes;
  for (const Knob& knob : knobs()) {
    if (knob.group == KnobClass::Numerics || knob.name == "micro_batches" || knob.name == "pad_messages" ||
        knob.name == "comm_sms")
      continue;
    if (const auto* choice = std::get_if<ChoiceKnob>(&knob.type))
      for (const KnobValue& value : choice->values()) {
        if (value.built)
          changes.push_back({fmt::format("{}={}", knob.name, value.name),
                             [set = choice->set, v = value.value](Plan& p) { set(p, v); }});
      }
    if (const auto* flag = std::get_if<FlagKnob>(&knob.type); flag != nullptr && knob.built)
      changes.push_back({fmt::format("{} changed", knob.name), [m = flag->member](Plan& p) { p.*m = !(p.*m); }});
    if (const auto* count = std::get_if<CountKnob>(&knob.type)) add_counts(knob, *count, changes);
    if (const auto* set = std::get_if<SetKnob>(&knob.type))
      for (const KnobValue& value : set->values())
        changes.push_back({fmt::format("{} {} changed", knob.name, value.name),
                           [=](Plan& p) { set->set(p, set->get(p) ^ (1U << static_cast<unsigned>(value.value))); }});
  }
  for (const std::int64_t bytes : {std::int64_t{100'000'000}, std::int64_t{400'000'000}})
    changes.push_back(
        {fmt::format("gradient_chunk_bytes={}", bytes), [=](Plan& p) { p.gradient_chunk_bytes = bytes; }});
  return changes;
}

using Changes = std::vector<Change>;

class Climber {
 public:
  // `time`: of the plan.
  Climber(Experiment experiment, Plan plan, Seconds time, Bytes limit)
      : experiment_(std::move(experiment)), limit_(limit), best_(std::move(plan)), time_(time) {}

  Seconds time() const { return time_; }
  const std::string& found() const { return found_; }

  // As long as one change makes it faster.
  void climb(const Changes& changes) {
    for (bool better = true; better;) {
      better = false;
      for (const Change& change : changes) better |= try_out({&change});
    }
  }

  // Whether the changes together make the step faster, within memory.
  bool try_out(const std::vector<const Change*>& changes) {
    Plan plan = best_;
    for (const Change* change : changes) change->make(plan);
    if (plan == best_ || planners::refusal(plan, experiment_)) return false;
    try {
      const planners::StepEstimate step =
          planners::estimate(experiment_, plan, costs_.of(experiment_, plan), costs_.hop(experiment_, plan), orders_);
      constexpr double promising = 1.02;
      if (step.peak > limit_ || step.time > time_ * promising) return false;
      const planners::StepPrediction whole(experiment_, plan);
      if (whole.peak() > limit_ || whole.time() > time_ * .999) return false;
      for (const Change* change : changes) found_ += fmt::format(" {}", change->name);
      found_ += fmt::format(" ({:.2f} %)", 100 * (1 - whole.time() / time_));
      time_ = whole.time();
      best_ = plan;
      return true;
    } catch (const InputError&) {  // a cost is missing
      return false;
    }
  }

 private:
  Experiment experiment_;
  Bytes limit_;
  Plan best_;
  Seconds time_;
  std::string found_;
  planners::StageCostTable costs_;
  planners::PipelineOrders orders_;
};

// The plan on another layout, with its step; none: it cannot be built there, or does not fit.
struct Begun {
  Experiment experiment;
  Plan plan;
  Seconds time;
};
std::optional<Begun> begun(const Experiment& question, const planners::ParallelLayout& layout, Plan plan, Bytes limit) {
  plan.micro_batches = layout.micro_batches;
  Experiment e = planners::with_layout(question, layout);
  for (const auto& change :
       {std::function<void(Plan&)>([](Plan&) {}), {[](Plan& p) { p.virtual_stages = 1; }}, {[](Plan& p) {
          p.virtual_stages = 1;
          p.recompute = EnumSet{Recompute::Full};
        }}}) {
    change(plan);
    if (planners::refusal(plan, e)) continue;
    planners::StageCostTable costs;
    planners::PipelineOrders orders;
    const planners::StepEstimate step = planners::estimate(e, plan, costs.of(e, plan), costs.hop(e, plan), orders);
    if (step.peak <= limit) return Begun{std::move(e), plan, step.time};
  }
  return std::nullopt;
}

// The layouts other than the answer's on which its plan is fastest.
std::vector<Begun> other_layouts(const TuneQuestion& question, const SystemResult& answer, Bytes limit) {
  constexpr std::size_t tried = 6;
  std::vector<Begun> others;
  const Experiment& e = question.question.experiment;
  for (const planners::ParallelLayout& layout : planners::layouts(e, {question.global_batch})) {
    if (layout == planners::ParallelLayout{answer.groups, answer.micro_batch, answer.plan.micro_batches}) continue;
    try {
      if (auto other = begun(e, layout, answer.plan, limit)) others.push_back(*std::move(other));
    } catch (const InputError&) {  // a cost is missing
    }
  }
  std::ranges::stable_sort(others, {}, &Begun::time);
  if (others.size() > tried) others.erase(others.begin() + tried, others.end());
  return others;
}

// The step that the climber ends with, over that of the answer.
double climbed(const TuneQuestion& question, const SystemResult& answer, Bytes limit, int draws) {
  const Changes changes = changes_of_one_knob();
  const Experiment own = planners::with_layout(question.question.experiment,
                                               {answer.groups, answer.micro_batch, answer.plan.micro_batches});
  Climber climber(own, answer.plan, answer.metrics.makespan, limit);
  climber.climb(changes);
  std::mt19937 random(1);
  std::uniform_int_distribution<std::size_t> any(0, changes.size() - 1);
  for (int i = 0; i < draws; ++i) {
    std::vector<const Change*> drawn{&changes[any(random)], &changes[any(random)]};
    if (i % 2 == 1) drawn.push_back(&changes[any(random)]);
    climber.try_out(drawn);
  }
  if (!climber.found().empty()) UNSCOPED_INFO(climber.found());
  Seconds best = climber.time();
  for (const Begun& other : other_layouts(question, answer, limit)) {
    Climber there(other.experiment, other.plan, planners::StepPrediction(other.experiment, other.plan).time(), limit);
    there.climb(changes);
    const Parallelism& p = other.experiment.parallelism;
    if (there.time() < best)
      UNSCOPED_INFO("pp " << p.pp << ", mp " << p.mp << ", ep " << p.ep << ", esp " << p.esp << ":" << there.found());
    best = std::min(best, there.time());
  }
  return best / answer.metrics.makespan;
}

TuneOptions asked(const std::string& cluster, int nodes, const std::string& model, int batch,
                  const std::vector<std::string>& set = {}) {
  TuneOptions options;
  options.request.cluster = cluster;
  options.request.nodes = nodes;
  options.request.model = model;
  options.request.set = set;
  options.global_batch = batch;
  options.sequence = 4096;
  options.draws = 0;
  options.count = 1;
  options.systems = {"megatron_lm"};
  return options;
}

double climbed_from_answer(const TuneOptions& options, int draws) {
  const TuneQuestion question = load_tune_question(options);
  const Report report = tune(question, options, {});
  REQUIRE(!report.results.empty());
  return climbed(question, report.results.front(), report.tuning->limit, draws);
}

}  // namespace

TEST_CASE("An outside climber finds nothing better than the answer of tune: small questions") {
  CHECK(climbed_from_answer(asked("dgx-h100", 1, "olmoe-1b-7b", 64), 300) >= .995);
}

TEST_CASE("An outside climber finds nothing better than the answer of tune: real questions", "[.][questions]") {
  struct Asked {
    std::string cluster;
    int nodes;
    std::string model;
    int batch;
    std::vector<std::string> set;
  };
  const Asked each = GENERATE(values<Asked>({
      {"dgx-h100", 2, "qwen3-30b-a3b", 512, {}},
      {"dgx-h100", 16, "mixtral-8x22b", 512, {}},
      {"dgx-h100", 32, "qwen3-235b-a22b", 1024, {}},
      {"dgx-h100", 32, "deepseek-v3", 2048, {}},
      {"dgx-h100", 32, "glm-4.5", 1024, {}},
      {"gb200-nvl72", 4, "deepseek-v3", 2304, {}},
      {"dgx-h100", 8, "llama-3.1-70b", 256, {}},
      {"fsmoe-testbed-b", 4, "gpt2-xl-moe", 64, {}},
  }));
  CAPTURE(each.cluster, each.nodes, each.model);
  const double left = climbed_from_answer(asked(each.cluster, each.nodes, each.model, each.batch, each.set), 2000);
  CHECK(left >= .995);
  if (left < .999) WARN(each.model << " on " << each.nodes << " " << each.cluster << ": " << left);
}

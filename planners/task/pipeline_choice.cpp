// SPDX-License-Identifier: Apache-2.0
#include "planners/task/pipeline_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>

#include "models/base/names.hpp"
#include "planners/steps/step_prediction.hpp"
#include "planners/task/analytic_evaluator.hpp"
#include "planners/task/contest.hpp"
#include "planners/task/outlook.hpp"

namespace dovetail::planners {
namespace {

// A plan that is this much slower with another number of micro-batches is not planned anew for it: degrees and slices
// make up for less.
constexpr double hopeless = 1.3;
// The same for the best base plan by estimate.
constexpr double much_slower = 1.1;
// So much more rows held are no reason to prefer one of two plans that do not fit; by choice.
constexpr double about_as_small = 1.05;

class PipelineChoice {
 public:
  PipelineChoice(const Planner& planner, const PlanningTask& task, const Evaluator& ask)
      : planner_(planner), task_(task), ask_(ask), measure_(measure_of(task, ask)) {
    for (const Plan& rival : task.rivals)
      if (allowed(task, rival) && fits(rival, task))
        if (const auto time = if_answered([&] { return measure_(rival); })) rivals_.push_back({rival, *time});
  }

  PlanChoice choose(const std::vector<Pipeline>& asked) {
    const std::vector<Pipeline> ways = worth_planning(asked);
    std::optional<InputError> refused;
    int slower = 0;
    for (auto way = ways.begin(), next = way; way != ways.end(); way = next) {
      next = std::find_if(way, ways.end(), [&](Pipeline p) { return p.micro_batches != way->micro_batches; });
      if (slower >= patience() && !rival_with(way->micro_batches)) continue;
      // Other numbers of micro-batches may be built where one cannot.
      const std::optional<InputError> error = refusal_of([&] {
        const bool better = look_at({way, next}, next == ways.end());
        slower = better || !found_->fits ? 0 : slower + 1;
      });
      if (!refused) refused = error;
    }
    let_rivals_compete();
    if (!found_) throw *refused;
    PlanChoice choice = std::move(found_->choice);
    choice.report.evaluations = evaluations_;
    choice.report.reason += describe(choice.plan);
    return choice;
  }

 private:
  struct Found {
    PlanChoice choice;
    Seconds time;
    Bytes peak;
    bool fits = false;
  };

  struct Rival {  // that fits
    Plan plan;
    Seconds time;
  };

  // How plans with different numbers of micro-batches are compared: as the result is measured, where that is known.
  static Evaluator measure_of(const PlanningTask& task, const Evaluator& ask) {
    if (ask) return ask;
    if (task.trial) return [&task](const Plan& plan) { return task.trial(plan).time; };
    return task_evaluator(task);
  }

  // Whether plans are compared by the model that estimates are of.
  bool estimates() const { return task_.by_estimate && !task_.trial && !ask_; }

  // The ways that may be best by estimate: those that fit, if any do, else those that hold least, and of them those
  // that are not much slower than the best. Rivals' numbers of micro-batches stay. All ways where steps are not
  // estimated.
  std::vector<Pipeline> worth_planning(const std::vector<Pipeline>& ways) const {
    if (!estimates()) return ways;
    std::vector<Outlook> all = outlooks(planner_, task_, ways);
    if (all.empty() || std::ranges::any_of(all, [](const Outlook& e) { return !e.step; })) return ways;
    const Bytes smallest = std::ranges::min(all, {}, [](const Outlook& e) { return e.step->held; }).step->held;
    const Bytes most = std::max(limit(), smallest * about_as_small);
    std::erase_if(all, [&](const Outlook& e) { return e.step->held > most; });
    const Seconds least = std::ranges::min(all, {}, [](const Outlook& e) { return e.step->time; }).step->time;
    std::erase_if(
        all, [&](const Outlook& e) { return e.step->time > least * much_slower && !rival_with(e.way.micro_batches); });
    std::vector<Pipeline> worth;
    for (const Outlook& e : all) worth.push_back(e.way);
    return worth;
  }

  // Is the plan that fits clearly not faster than another one?
  bool no_faster(const Plan& plan, const Plan& than) const {
    if (!estimates() || !found_ || !found_->fits) return false;
    const auto step = task_.estimate(plan), other = task_.estimate(than);
    return step && other && step->time >= other->time;
  }

  bool staged() const { return task_.experiment.parallelism.pp > 1; }
  bool searches() const { return task_.choices.space == SearchSpace::Plans; }
  // So many numbers of micro-batches in a row that only made the step slower end the search.
  int patience() const { return staged() ? 2 : 1; }

  // All of one number of micro-batches. Returns whether there is a better plan now.
  bool look_at(std::span<const Pipeline> ways, bool last) {
    if (!found_ || promising(ways.front(), last)) return compete(planned(ways.front()), ways);
    return !found_->fits && compete(found_->choice, ways);
  }

  // Is planning with other micro-batches worth its time? It is where the best plan so far is about as fast with them,
  // or small enough where it is too large now. A plan that cannot be built with them says nothing.
  bool promising(Pipeline way, bool last) {
    slower_with_ = 0;
    Plan plan = found_->choice.plan;
    set_pipeline(plan, way);
    if (refusal(plan, task_.experiment) || rival_with(way.micro_batches)) return true;
    ++evaluations_;
    if (!found_->fits) return last || peak_of(plan) <= limit();
    const Seconds time = measure_(plan);
    if (time > found_->time) slower_with_ = way.micro_batches;
    return time <= found_->time * hopeless;
  }

  // Does another system do better with so many?
  bool rival_with(int micro_batches) const {
    return std::ranges::any_of(rivals_, [&](const Rival& rival) {
      return rival.plan.micro_batches == micro_batches && (!found_->fits || rival.time < found_->time);
    });
  }

  PlanChoice planned(Pipeline way) {
    const int stages = task_.experiment.parallelism.pp, few = way.micro_batches % (2 * stages) == 0 ? 2 * stages : 0;
    if (!ask_ && !searches() && few != 0 && few != way.micro_batches)
      if (std::optional<PlanChoice> choice = planned_on_few(way, few)) return *std::move(choice);
    PlanningTask task = task_;
    set_pipeline(task.base, way);
    // A search starts from its rivals, and would come back to their numbers of micro-batches.
    std::erase_if(task.rivals, [&](const Plan& rival) { return rival.micro_batches != way.micro_batches; });
    return counted(planner_.choose(task, ask_ ? ask_ : task_evaluator(task_)));
  }

  // All micro-batches are alike, so that two for each stage show which plan is fastest, but not all memory that it
  // needs: none where that turns out to be too much.
  std::optional<PlanChoice> planned_on_few(Pipeline way, int few) {
    const Experiment shorter = with_fewer(task_.experiment, way.micro_batches, few);
    const Pipeline on_few{way.schedule, few, way.virtual_stages};
    const auto hold = [this, on_few](Plan& plan) {  // the user's number of micro-batches is that of the whole step
      if (task_.hold) task_.hold(plan);
      set_pipeline(plan, on_few);
    };
    PlanningTask task{shorter, task_.base, task_.choices, {}, hold, {}, task_.steps, task_.by_estimate};
    set_pipeline(task.base, on_few);
    PlanChoice choice = counted(planner_.choose(task, task_evaluator(task)));
    const bool fits_few = task.steps->peak(shorter, choice.plan) <= limit();
    set_pipeline(choice.plan, way);
    if (refusal(choice.plan, task_.experiment)) return std::nullopt;
    if (fits_few && peak_of(choice.plan) > limit()) return std::nullopt;
    forget_comparisons(choice.report);
    choice.report.reason += fmt::format("; planned on {} of the micro-batches", few);
    return choice;
  }

  PlanChoice counted(PlanChoice choice) {
    evaluations_ += choice.report.evaluations;
    return choice;
  }

  // All that was found out about other steps or plans than the one that is reported.
  static void forget_comparisons(PlannerReport& report) {
    report.proof.reset();
    report.front.clear();
    report.runner_up.reset();
  }

  // Is one of these better than all before?
  bool compete(const PlanChoice& choice, std::span<const Pipeline> ways) {
    bool better = compete(choice);
    for (const Pipeline way : ways) {
      PlanChoice same = choice;
      set_pipeline(same.plan, way);
      if (same.plan == choice.plan || no_faster(same.plan, choice.plan)) continue;
      forget_comparisons(same.report);
      better = compete(std::move(same)) || better;
    }
    return better;
  }

  bool compete(PlanChoice choice) {
    if (refusal(choice.plan, task_.experiment)) return false;
    const Seconds time = measure_(choice.plan);
    // A plan that is too slow need not be looked at for its memory.
    if (found_ && found_->fits && time >= found_->time) return false;
    const Bytes peak = peak_of(choice.plan);
    const bool fits = peak <= limit();
    if (found_ && !fits && (found_->fits || peak >= found_->peak)) return false;
    found_ = Found{std::move(choice), time, peak, fits};
    slower_with_ = 0;
    return true;
  }

  void let_rivals_compete() {
    for (const Rival& rival : rivals_) {
      PlanChoice choice{rival.plan, {}};
      choice.report.name = planner_.name();
      choice.report.reason = "the choice of another system";
      compete(std::move(choice));
    }
  }

  Bytes peak_of(const Plan& plan) const { return task_.steps->peak(task_.experiment, plan); }
  Bytes limit() const { return task_.experiment.cluster.device.memory; }

  std::string describe(const Plan& plan) const {
    const std::string pipeline = plan.micro_batches == 1
                                     ? "; all this with one micro-batch"
                                     : fmt::format("; all this with {} micro-batches by {}", plan.micro_batches,
                                                   name_in(pipeline_schedule_names, plan.pipeline_schedule));
    return pipeline + (slower_with_ > 0 ? fmt::format(", {} make the same plan slower", slower_with_) : "");
  }

  const Planner& planner_;
  const PlanningTask& task_;
  const Evaluator ask_, measure_;
  long evaluations_ = 0;
  int slower_with_ = 0;  // so many micro-batches the plan found so far
  std::vector<Rival> rivals_;
  std::optional<Found> found_;
};

}  // namespace

PlanChoice choose_with_pipeline(const Planner& planner, const PlanningTask& task, const std::vector<Pipeline>& ways,
                                const Evaluator& ask) {
  if (ways.size() > 1) return PipelineChoice(planner, task, ask).choose(ways);
  PlanningTask only = task;
  set_pipeline(only.base, ways.front());
  return planner.choose(only, ask ? ask : task_evaluator(task));
}

}  // namespace dovetail::planners

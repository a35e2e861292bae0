#include "planners/pipeline_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>

#include "models/base/names.hpp"
#include "models/question/capacity.hpp"
#include "planners/analytic_evaluator.hpp"
#include "planners/contest.hpp"

namespace dovetail::planners {
namespace {

constexpr int most_micro_batches = 256;

// A plan that is this much slower with another number of micro-batches is not planned anew for it: degrees and slices
// make up for less.
constexpr double hopeless = 1.3;

bool fixed_otherwise(const PlanningTask& task, Pipeline pipeline) {
  if (!task.hold) return false;
  Plan plan = task.base;
  set_pipeline(plan, pipeline);
  Plan held = plan;
  task.hold(held);
  return held.micro_batches != plan.micro_batches || held.pipeline_schedule != plan.pipeline_schedule;
}

// The experiment with fewer micro-batches of the same size.
Experiment with_fewer(Experiment e, int micro_batches, int fewer) {
  e.workload.batch = e.workload.batch / micro_batches * fewer;
  e.workload.router_loads.clear();
  resolve_capacity(e);
  return e;
}

class PipelineChoice {
 public:
  PipelineChoice(const Planner& planner, const PlanningTask& task, const Evaluator& ask)
      : planner_(planner), task_(task), ask_(ask), evaluate_(ask ? ask : analytic_evaluator(task.experiment)) {}

  PlanChoice choose(const std::vector<Pipeline>& ways) {
    std::optional<InputError> refused;
    int slower = 0;
    for (auto way = ways.begin(); way != ways.end() && slower < 2;) {
      const int parts = way->micro_batches;
      const auto next = std::find_if(way, ways.end(), [&](Pipeline p) { return p.micro_batches != parts; });
      if (found_ && found_->fits && task_.experiment.parallelism.pp == 1) break;
      try {
        const bool better = look_at({way, next}, next == ways.end());
        slower = better || !found_->fits ? 0 : slower + 1;
      } catch (const InputError& error) {  // other numbers of micro-batches may be built
        if (!refused) refused = error;
      }
      way = next;
    }
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

  // All of one number of micro-batches. Returns whether there is a better plan now.
  bool look_at(std::span<const Pipeline> ways, bool last) {
    if (!found_ || promising(ways.front(), last)) return compete(planned(ways.front()), ways);
    return !found_->fits && compete(found_->choice, ways);
  }

  // Is the best plan so far, with other micro-batches, about as fast, or small enough where it is too large now? A plan
  // that cannot be built with them says nothing.
  bool promising(Pipeline way, bool last) {
    Plan plan = found_->choice.plan;
    set_pipeline(plan, way);
    if (refusal(plan, task_.experiment)) return true;
    ++evaluations_;
    if (found_->fits) return evaluate_(plan) <= found_->time * hopeless;
    return last || peak_memory(task_.experiment, plan) <= limit();
  }

  PlanChoice planned(Pipeline way) {
    const int stages = task_.experiment.parallelism.pp, few = way.micro_batches % (2 * stages) == 0 ? 2 * stages : 0;
    PlanningTask task = task_;
    if (ask_ || few == 0 || few == way.micro_batches) {
      set_pipeline(task.base, way);
      return counted(planner_.choose(task, evaluate_));
    }
    const Experiment shorter = with_fewer(task_.experiment, way.micro_batches, few);
    set_pipeline(task.base, {way.schedule, few});
    PlanningTask on_few{shorter, task.base, task.choices, task.rivals, task.hold, task.trial};
    PlanChoice choice = counted(planner_.choose(on_few, analytic_evaluator(shorter)));
    choice.report.reason += fmt::format("; planned on {} of the micro-batches", few);
    return choice;
  }

  PlanChoice counted(PlanChoice choice) {
    evaluations_ += choice.report.evaluations;
    return choice;
  }

  // Is one of these better than all before?
  bool compete(const PlanChoice& choice, std::span<const Pipeline> ways) {
    bool better = false;
    for (const Pipeline way : ways) {
      PlanChoice same = choice;
      set_pipeline(same.plan, way);
      if (!refusal(same.plan, task_.experiment)) better = compete(std::move(same)) || better;
    }
    return better;
  }

  bool compete(PlanChoice choice) {
    const Seconds time = evaluate_(choice.plan);
    // A plan that is too slow need not be looked at for its memory.
    if (found_ && found_->fits && time >= found_->time) return false;
    const Bytes peak = peak_memory(task_.experiment, choice.plan);
    const bool fits = peak <= limit();
    if (found_ && !fits && (found_->fits || peak >= found_->peak)) return false;
    found_ = Found{std::move(choice), time, peak, fits};
    return true;
  }

  Bytes limit() const { return task_.experiment.cluster.device.memory; }

  static std::string describe(const Plan& plan) {
    if (plan.micro_batches == 1) return "; one micro-batch is fastest";
    return fmt::format("; {} micro-batches by {}", plan.micro_batches,
                       name_in(pipeline_schedule_names, plan.pipeline_schedule));
  }

  const Planner& planner_;
  const PlanningTask& task_;
  const Evaluator ask_, evaluate_;
  long evaluations_ = 0;
  std::optional<Found> found_;
};

}  // namespace

void set_pipeline(Plan& plan, Pipeline pipeline) {
  plan.pipeline_schedule = pipeline.schedule;
  plan.micro_batches = pipeline.micro_batches;
}

std::vector<Pipeline> pipelines(const PlanningTask& task) {
  std::vector<Pipeline> ways;
  const Pipeline as_given{task.base.pipeline_schedule, task.base.micro_batches};
  const auto add = [&](Pipeline pipeline) {
    Plan plan;
    set_pipeline(plan, pipeline);
    if (!refusal(plan, task.experiment) && !fixed_otherwise(task, pipeline)) ways.push_back(pipeline);
  };
  const int most = as_given.micro_batches > 1 ? 0 : std::min(task.experiment.workload.batch, most_micro_batches);
  for (int parts = 1; parts <= most; ++parts) {
    if (task.experiment.workload.batch % parts != 0) continue;
    if (parts == 1) {
      add({as_given.schedule, 1});
      continue;
    }
    add({PipelineSchedule::OneForwardOneBackward, parts});
    add({PipelineSchedule::Gpipe, parts});
  }
  if (ways.empty()) ways.push_back(as_given);
  return ways;
}

PlanChoice choose_with_pipeline(const Planner& planner, const PlanningTask& task, const std::vector<Pipeline>& ways,
                                const Evaluator& ask) {
  if (ways.size() > 1) return PipelineChoice(planner, task, ask).choose(ways);
  PlanningTask only = task;
  set_pipeline(only.base, ways.front());
  return planner.choose(only, ask ? ask : analytic_evaluator(task.experiment));
}

}  // namespace dovetail::planners

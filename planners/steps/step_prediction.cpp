// SPDX-License-Identifier: Apache-2.0
#include "planners/steps/step_prediction.hpp"

#include <algorithm>
#include <utility>

#include "models/price/build_schedule.hpp"
#include "models/question/capacity.hpp"
#include "models/time/analytic_backend.hpp"
#include "models/time/memory.hpp"

namespace dovetail::planners {
namespace {

// One period fills the pipeline, or two with several laps. Without stages a pair of micro-batches may run together.
struct Lengths {
  int shorter = 0, longest = 0;
};
Lengths lengths_of(int stages, const Plan& plan) {
  const int period = std::max(2, stages), filling = stages > 1 && plan.virtual_stages == 1 ? 1 : 2;
  const int shorter = filling * period + plan.micro_batches % period;
  return {shorter, shorter + period};
}

// A step that is long enough to repeat itself before it drains, where all goes as usual: by which distance of
// micro-batches, and in which share of that period it is steady for certain. Several laps take a period to fill.
struct Window {
  int micro_batches = 0, lag = 0;
  double share = 1;
};
Window window_of(int stages, const Plan& plan) {
  constexpr int steady = 4;  // the first of these waits less
  if (plan.virtual_stages == 1) return {stages + steady, 1};
  return {3 * stages, stages, .5 / plan.virtual_stages};
}

// Whether a short step that repeats itself tells of the whole one. An order by readiness is made for a whole step.
bool may_repeat(const Plan& plan) {
  return plan.order != Order::ReadyFirst;
}

// Whether two short steps that have not settled do. Copies to the host may fall behind by more and more.
bool may_be_shortened(const Plan& plan) {
  return may_repeat(plan) && !offloads_input(plan.restore) && !offloads_hidden(plan.restore);
}

// The work of each stream, and after them of the host of each class.
std::vector<Seconds> work_of(const PricedSchedule& priced) {
  const Schedule& s = *priced.schedule;
  std::vector<Seconds> work(s.streams.size() + s.classes.size());
  for (const OpId i : s.ops.ids()) {
    work[static_cast<std::size_t>(s.ops[i].stream)] += priced.duration[i];
    if (!priced.launch.empty())
      work[s.streams.size() + static_cast<std::size_t>(s.class_of(s.ops[i]))] += priced.launch[i];
  }
  return work;
}

// The tensors that a micro-batch has throughout the step, on each class: its input, and the gradient of its output.
std::vector<Bytes> inputs_of(const Schedule& s, int micro_batch) {
  std::vector<Bytes> inputs(s.classes.size());
  for (const Tensor& t : s.tensors)
    if (t.persistent && t.place == Place::Device && t.micro_batch == micro_batch)
      inputs[static_cast<std::size_t>(t.rank_class)] += t.bytes();
  return inputs;
}

bool settled(const PricedSchedule& shorter, const PricedSchedule& longest, Seconds period) {
  const std::vector<Seconds> less = work_of(shorter), more = work_of(longest);
  for (std::size_t i = 0; i < more.size(); ++i)
    if (more[i] - less[i] > period * (1 + 1e-9)) return false;
  return true;
}

// So many times what another span has, in all that spans add up to.
void add(Metrics& all, double times, const Metrics& span) {
  for (const auto part : {&Metrics::makespan, &Metrics::forward, &Metrics::backward, &Metrics::computation,
                          &Metrics::exposed_communication, &Metrics::waiting, &Metrics::hidden, &Metrics::launch_bound})
    all.*part += times * (span.*part);
}

}  // namespace

Experiment with_fewer(Experiment e, int micro_batches, int fewer) {
  e.workload.batch = e.workload.batch / micro_batches * fewer;
  e.workload.router_loads.clear();
  resolve_capacity(e);
  return e;
}

StepPrediction::Step StepPrediction::step_of(const Experiment& experiment, const Plan& plan, const Reprice& reprice) {
  Step step{plan.micro_batches, price_plan(experiment, plan), {}, {}};
  if (reprice) reprice(step.priced);
  step.timeline = AnalyticBackend().run(step.priced);
  for (const Interval& op : step.timeline.ops) step.time = std::max(step.time, op.finish);
  return step;
}

// The first so many micro-batches of a step.
StepPrediction::Step StepPrediction::part_of(const Experiment& experiment, const Plan& plan, int micro_batches,
                                             const Reprice& reprice) {
  Plan few = plan;
  few.micro_batches = micro_batches;
  return step_of(with_fewer(experiment, plan.micro_batches, micro_batches), few, reprice);
}

// Tries it only where that may save more than it costs if the step has not settled.
bool StepPrediction::settles(const Experiment& experiment, const Plan& plan, int otherwise, const Reprice& reprice) {
  constexpr double worthwhile = .7;  // of the micro-batches that are built otherwise; by choice
  const Window window = window_of(experiment.parallelism.pp, plan);
  if (plan.pipeline_schedule == PipelineSchedule::Gpipe || window.micro_batches > worthwhile * otherwise) return false;
  longest_ = part_of(experiment, plan, window.micro_batches, reprice);
  period_ = steady_period(longest_.priced, longest_.timeline, window.lag, window.share);
  if (period_) periods_ = static_cast<double>(plan.micro_batches - window.micro_batches) / window.lag;
  return period_.has_value();
}

StepPrediction::StepPrediction(const Experiment& experiment, const Plan& plan, const Reprice& reprice)
    : micro_batches_(plan.micro_batches) {
  const Lengths lengths = lengths_of(experiment.parallelism.pp, plan);
  const bool by_two = may_be_shortened(plan) && lengths.shorter + lengths.longest < plan.micro_batches;
  const int otherwise = by_two ? lengths.shorter + lengths.longest : plan.micro_batches;
  if (may_repeat(plan) && settles(experiment, plan, otherwise, reprice)) return;
  if (by_two) {
    shorter_ = part_of(experiment, plan, lengths.shorter, reprice);
    if (longest_.micro_batches != lengths.longest) longest_ = part_of(experiment, plan, lengths.longest, reprice);
    periods_ = static_cast<double>(plan.micro_batches - lengths.longest) / (lengths.longest - lengths.shorter);
    if (settled(shorter_.priced, longest_.priced, longest_.time - shorter_.time)) return;
    shorter_ = {};
    periods_ = 0;
  }
  longest_ = step_of(experiment, plan, reprice);
}

Seconds StepPrediction::time() const {
  if (period_) return longest_.time + periods_ * period_->time;
  return periods_ > 0 ? longest_.time + periods_ * (longest_.time - shorter_.time) : longest_.time;
}

std::vector<Bytes> StepPrediction::stage_peaks() const {
  const auto peaks_of = [](const Step& step) {
    std::vector<Bytes> peaks;
    for (const MemoryUse& use : memory_by_class(*step.priced.schedule, step.timeline, Arenas::LeftOut))
      peaks.push_back(use.peak);
    return peaks;
  };
  std::vector<Bytes> peaks = peaks_of(longest_);
  if (periods_ == 0) return peaks;
  if (period_) {  // rows under way are as many as before
    const std::vector<Bytes> inputs = inputs_of(*longest_.priced.schedule, longest_.micro_batches - 1);
    for (std::size_t i = 0; i < peaks.size(); ++i) peaks[i] += (micro_batches_ - longest_.micro_batches) * inputs[i];
    return peaks;
  }
  const std::vector<Bytes> less = peaks_of(shorter_);
  for (std::size_t i = 0; i < peaks.size(); ++i) peaks[i] += periods_ * (peaks[i] - less[i]);
  return peaks;
}

Bytes StepPrediction::peak() const {
  return std::ranges::max(stage_peaks());
}

// The last forward op moves on with each period, and the end of the step is as far behind it as before.
Metrics StepPrediction::metrics_within(const Step& step, const SteadyPeriod& period) {
  Timeline cut = step.timeline;
  for (Interval& op : cut.ops) {
    op.start = std::clamp(op.start, period.from, period.end()) - period.from;
    op.finish = std::clamp(op.finish, period.from, period.end()) - period.from;
  }
  Metrics m = dovetail::metrics(*step.priced.schedule, cut);
  m.waiting += period.time - m.makespan;
  m.makespan = m.forward = period.time;
  m.backward = Seconds(0);
  if (!step.priced.launch.empty())
    m.launch_bound = launch_bound(*step.priced.schedule, step.timeline, period.from, period.end());
  return m;
}

Metrics StepPrediction::metrics() const {
  const auto metrics_of = [](const Step& step) {
    Metrics m = dovetail::metrics(*step.priced.schedule, step.timeline);
    if (!step.priced.launch.empty()) m.launch_bound = launch_bound(*step.priced.schedule, step.timeline);
    return m;
  };
  Metrics all = metrics_of(longest_);
  if (periods_ == 0) return all;
  if (period_) {
    add(all, periods_, metrics_within(longest_, *period_));
    return all;
  }
  const Metrics longest = all;
  add(all, periods_, longest);
  add(all, -periods_, metrics_of(shorter_));
  return all;
}

}  // namespace dovetail::planners

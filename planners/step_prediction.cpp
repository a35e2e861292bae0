#include "planners/step_prediction.hpp"

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

// Whether two short steps are less work than the whole one, and tell of it. An order by readiness is made for a whole
// step, and copies to the host may fall behind by more and more.
bool shortened(const Lengths& lengths, const Plan& plan) {
  return lengths.shorter + lengths.longest < plan.micro_batches && plan.order != Order::ReadyFirst &&
         !offloads_input(plan.restore) && !offloads_hidden(plan.restore);
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

bool settled(const PricedSchedule& shorter, const PricedSchedule& longest, Seconds period) {
  const std::vector<Seconds> less = work_of(shorter), more = work_of(longest);
  for (std::size_t i = 0; i < more.size(); ++i)
    if (more[i] - less[i] > period * (1 + 1e-9)) return false;
  return true;
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

StepPrediction::StepPrediction(const Experiment& experiment, const Plan& plan, const Reprice& reprice) {
  const Lengths lengths = lengths_of(experiment.parallelism.pp, plan);
  if (shortened(lengths, plan)) {
    const auto step = [&](int micro_batches) {
      Plan few = plan;
      few.micro_batches = micro_batches;
      return step_of(with_fewer(experiment, plan.micro_batches, micro_batches), few, reprice);
    };
    shorter_ = step(lengths.shorter);
    longest_ = step(lengths.longest);
    periods_ = static_cast<double>(plan.micro_batches - lengths.longest) / (lengths.longest - lengths.shorter);
    if (settled(shorter_.priced, longest_.priced, longest_.time - shorter_.time)) return;
    shorter_ = {};
    periods_ = 0;
  }
  longest_ = step_of(experiment, plan, reprice);
}

Seconds StepPrediction::time() const {
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
  const std::vector<Bytes> less = peaks_of(shorter_);
  for (std::size_t i = 0; i < peaks.size(); ++i) peaks[i] += periods_ * (peaks[i] - less[i]);
  return peaks;
}

Bytes StepPrediction::peak() const {
  return std::ranges::max(stage_peaks());
}

Metrics StepPrediction::metrics() const {
  const auto metrics_of = [](const Step& step) {
    Metrics m = dovetail::metrics(*step.priced.schedule, step.timeline);
    if (!step.priced.launch.empty()) m.launch_bound = launch_bound(*step.priced.schedule, step.timeline);
    return m;
  };
  Metrics all = metrics_of(longest_);
  if (periods_ == 0) return all;
  const Metrics less = metrics_of(shorter_);
  for (const auto part : {&Metrics::makespan, &Metrics::forward, &Metrics::backward, &Metrics::exposed_communication,
                          &Metrics::waiting, &Metrics::computation, &Metrics::hidden, &Metrics::launch_bound})
    all.*part += periods_ * (all.*part - less.*part);
  return all;
}

}  // namespace dovetail::planners

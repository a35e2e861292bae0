// SPDX-License-Identifier: Apache-2.0
#include "planners/steps/step_prediction.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "models/base/errors.hpp"
#include "models/price/build_schedule.hpp"
#include "models/question/capacity.hpp"
#include "models/schedule/op_table.hpp"
#include "models/time/analytic_backend.hpp"
#include "models/time/memory.hpp"

namespace dovetail::planners {
namespace {

// One period fills the pipeline, or two with several laps, or three where gradients of weights come later by up to
// twice as many micro-batches as there are stages, and four more where passes run beside each other. Without stages a
// pair of micro-batches may run together.
struct Lengths {
  int shorter = 0, longest = 0;
};
Lengths lengths_of(int stages, const Plan& plan) {
  const bool halves = plan.pipeline().halves;
  const bool one_lap = stages > 1 && plan.virtual_stages == 1, paired = plan.turns() == Turns::Paired;
  const int period = std::max(2, stages), filling = (halves ? 3 : one_lap ? 1 : 2) + (paired ? 4 : 0);
  const int shorter = filling * period + plan.micro_batches % period;
  return {shorter, shorter + period};
}

// Times the shortest window.
constexpr std::array lengths_of_windows{1, 2, 4};

// Whether a short step tells of the whole one. An order by costs, and one that is listed, is made for a whole step.
bool may_be_short(const Plan& plan) {
  return !plan.is_ordered_by_costs() && !plan.lists_program();
}

// Whether one that repeats itself does. Two pipelines have a first and a last micro-batch each.
bool may_repeat(const Plan& plan) {
  return may_be_short(plan) && pipelines_of(plan.pipeline().shape) == 1;
}

// Whether two short steps that have not settled do. Copies to the host may fall behind by more and more.
bool may_be_shortened(const Plan& plan) {
  return may_be_short(plan) && !offloads_input(plan.restore) && !offloads_hidden(plan.restore);
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

Seconds end_of(const Timeline& timeline) {
  Seconds end;
  for (const Interval& op : timeline.ops) end = std::max(end, op.finish);
  return end;
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
  step.time = end_of(step.timeline);
  return step;
}

// The first so many micro-batches of a step.
StepPrediction::Step StepPrediction::part_of(const Experiment& experiment, const Plan& plan, int micro_batches,
                                             const Reprice& reprice) {
  Plan few = plan;
  few.micro_batches = micro_batches;
  return step_of(with_fewer(experiment, plan.micro_batches, micro_batches), few, reprice);
}

// A step that is long enough to repeat itself before it drains, where all goes as usual. Several laps take a period to
// fill, and only in a share of the next one it is steady for certain.
StepPrediction::Window StepPrediction::shortest_window(int stages, const Plan& plan) {
  constexpr int steady = 4;  // the first of these waits less; pairs settle later, after up to three times as many
  const bool halves = plan.pipeline().halves, paired = plan.turns() == Turns::Paired;
  if (plan.virtual_stages == 1) return {(halves || paired ? 3 : 1) * stages + (paired ? 3 : 1) * steady, 1};
  return {(halves || paired ? 4 : 3) * stages, stages, .5 / plan.virtual_stages};
}

// A step may settle late, and in turns of several micro-batches. In a longer one a whole period is looked at that ends
// well before the last micro-batches begin.
StepPrediction::Window StepPrediction::longer_window(int stages, const Plan& plan, int times) {
  const Window window = shortest_window(stages, plan);
  Window longer = times == 1 ? window : Window{times * window.micro_batches, std::max(2, stages), 1, 1};
  longer.micro_batches += (plan.micro_batches - longer.micro_batches) % longer.lag;  // whole periods are left
  return longer;
}

// Whether it may save more than it costs if the step has not settled. `otherwise`: what is built then.
bool StepPrediction::is_worthwhile(const Plan& plan, const Window& window, int otherwise) {
  constexpr double worthwhile = .7;  // of the micro-batches that are built otherwise; by choice
  return !plan.pipeline().last_first && window.micro_batches <= worthwhile * otherwise;
}

bool StepPrediction::settles(const Experiment& experiment, const Plan& plan, const Window& window, int otherwise,
                             const Reprice& reprice) {
  if (!is_worthwhile(plan, window, otherwise)) return false;
  longest_ = part_of(experiment, plan, window.micro_batches, reprice);
  period_ = window.period(longest_.priced, longest_.timeline);
  if (!period_) return false;
  periods_ = static_cast<double>(plan.micro_batches - window.micro_batches) / window.lag;
  window_ = window;
  return true;
}

std::optional<StepPrediction> StepPrediction::of_repeating(const Experiment& experiment, const Plan& plan) {
  if (!may_repeat(plan)) return std::nullopt;
  for (const int times : lengths_of_windows) {
    StepPrediction step(plan.micro_batches);
    const Window window = longer_window(experiment.parallelism.pp, plan, times);
    if (step.settles(experiment, plan, window, plan.micro_batches, {})) return step;
  }
  return std::nullopt;
}

std::optional<Seconds> StepPrediction::time_if(const Reprice& reprice) const {
  PricedSchedule priced = longest_.priced;
  reprice(priced);
  const Timeline timeline = AnalyticBackend().run(priced);
  const std::optional<SteadyPeriod> period = window_.period(priced, timeline);
  if (!period) return std::nullopt;
  return end_of(timeline) + periods_ * period->time;
}

StepPrediction::StepPrediction(const Experiment& experiment, const Plan& plan, const Reprice& reprice)
    : micro_batches_(plan.micro_batches) {
  const Lengths lengths = lengths_of(experiment.parallelism.pp, plan);
  const bool by_two = may_be_shortened(plan) && lengths.shorter + lengths.longest < plan.micro_batches;
  const int otherwise = by_two ? lengths.shorter + lengths.longest : plan.micro_batches;
  const int stages = experiment.parallelism.pp;
  const Window window = shortest_window(stages, plan);
  if (may_repeat(plan) && settles(experiment, plan, window, otherwise, reprice)) {
    exact_ = longer_window(stages, plan, 1).micro_batches == window.micro_batches;
    return;
  }
  if (by_two) {
    shorter_ = part_of(experiment, plan, lengths.shorter, reprice);
    if (longest_.micro_batches != lengths.longest) longest_ = part_of(experiment, plan, lengths.longest, reprice);
    periods_ = static_cast<double>(plan.micro_batches - lengths.longest) / (lengths.longest - lengths.shorter);
    if (settled(shorter_.priced, longest_.priced, longest_.time - shorter_.time)) return;
    shorter_ = {};
    periods_ = 0;
  }
  longest_ = step_of(experiment, plan, reprice);
  const bool tried = is_worthwhile(plan, window, otherwise);
  exact_ = !may_repeat(plan) || std::ranges::none_of(lengths_of_windows, [&](int times) {
    const Window longer = longer_window(stages, plan, times);
    return is_worthwhile(plan, longer, plan.micro_batches) && !(tried && longer.micro_batches == window.micro_batches);
  });
}

StepPrediction StepPrediction::exact(const Experiment& experiment, const Plan& plan) {
  if (std::optional<StepPrediction> repeating = of_repeating(experiment, plan)) return *std::move(repeating);
  StepPrediction whole(plan.micro_batches);
  whole.longest_ = step_of(experiment, plan, {});
  return whole;
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

Seconds StepPrediction::lower_bound() const {
  const PricedSchedule& priced = longest_.priced;
  check((period_ || periods_ == 0) && priced.first_activity.empty(), "a bound of a step that was not told by one");
  const Schedule& s = *priced.schedule;
  const int last = longest_.micro_batches - 1;
  std::vector<Seconds> busy(priced.physical);
  for (const OpId i : s.ops.ids()) {
    const Op& op = s.ops[i];
    const bool repeated = period_ && entry_of(op.kind).part != OpPart::StepEnd &&
                          op.micro_batch >= last - window_.lag && op.micro_batch < last;
    priced.for_each_demand(i, [&](const Demand& demand) {
      const auto resource = static_cast<std::size_t>(demand.resource);
      if (resource < priced.physical) busy[resource] += (repeated ? 1 + periods_ : 1) * demand.seconds;
    });
  }
  return std::ranges::max(busy);
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

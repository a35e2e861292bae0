// SPDX-License-Identifier: Apache-2.0
#include "exec/host/alternation.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exec/host/host_executor.hpp"
#include "exec/host/machine_memory.hpp"
#include "exec/host/rank_memory.hpp"
#include "exec/reference/language.hpp"
#include "exec/reference/training.hpp"
#include "exec/run/compute_rules.hpp"
#include "exec/run/measure.hpp"
#include "exec/run/numerics.hpp"
#include "exec/run/training.hpp"
#include "exec/step/adam_rule.hpp"
#include "exec/step/lasting_tensors.hpp"
#include "exec/transport/inproc_transport.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

constexpr std::size_t plan_count = 2;

// Every turn in both directions, more than once, and every kind of turn behind every other.
constexpr std::array<std::size_t, 9> checked_order{0, 0, 1, 1, 0, 1, 0, 1, 1};

// A cycle has each turn once. Cycles begin with either plan by turns. The first step's own turn does not count: words
// are made between cycles.
constexpr std::array<std::size_t, 5> cycle_order{0, 0, 1, 1, 0};
constexpr int warm_up_cycles = 2, least_cycles = 10;
// Adam moves a weight by its rate in a step: after so many by about 1, which is the size of weights.
constexpr int most_cycles = static_cast<int>(1 / adam_rate) / static_cast<int>(cycle_order.size()) - warm_up_cycles;

// The executors of both plans on one memory, with what they need.
class BothPlans {
 public:
  BothPlans(const Experiment& e, const SchedulePair& plans, Element element, const ModelData& data,
            const RunOptions& options) {
    for (const auto& schedule : plans) {
      const std::size_t streams = schedule->streams.size();
      transports_.push_back(make_inproc_transport(schedule->groups, e.cluster.gpus(), static_cast<int>(streams)));
      progress_.push_back(std::make_unique<Progress>(streams, static_cast<std::size_t>(e.cluster.gpus())));
    }
    executors_ = make_host_executors(e, {plans.begin(), plans.end()}, element, data, transports_);
    for (std::size_t plan = 0; plan < plan_count; ++plan) {
      executors_[plan]->report_to(*progress_[plan]);
      executors_[plan]->watch_stalls(options.patience, options.stuck);
    }
  }

  HostExecutor& operator[](std::size_t plan) { return *executors_[plan]; }

 private:
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<std::unique_ptr<Progress>> progress_;
  std::vector<std::unique_ptr<HostExecutor>> executors_;  // last: they use all above
};

bool has_words(const Experiment& e) {
  return e.workload.extent == Extent::Model;
}

TrainingStep training_step(const Experiment& e, std::uint64_t seed, int number) {
  TrainingStep step;
  step.number = number;
  if (has_words(e)) step.batch.words = language_words(e, seed, number);
  return step;
}

// NaN counts as the worst.
void keep_worst(double& worst, double error) {
  if (!(error <= worst)) worst = error;
}

void check_switches(const Experiment& e, const SchedulePair& plans, const RunOptions& options, SwitchReport& report) {
  const ModelData start = random_model_data(e, options.seed, plans[0]->micro_batches);
  BothPlans both(e, plans, Element::Double, start, options);
  ReferenceTraining reference(e, start, rules_of(*plans[0]));
  double tolerance = 0;
  for (const auto& plan : plans) tolerance = std::max(tolerance, tolerance_of(Element::Double, rules_of(*plan)));
  report.tolerance = training_tolerance(static_cast<int>(checked_order.size()), tolerance);
  for (std::size_t i = 0; i < checked_order.size(); ++i) {
    const std::size_t plan = checked_order[i];
    TrainingStep step = training_step(e, options.seed, static_cast<int>(i) + 1);
    step.poison = Poison::Yes;
    reference.take_rules(rules_of(*plans[plan]));
    const Reference expected = reference.step(step.batch.words);
    step.routing = expected.routing;
    both[plan].train_step(step);
    const NumericsReport n = compare(e, *plans[plan], both[plan], expected);
    keep_worst(report.output_error, n.output_error);
    keep_worst(report.gradient_error, n.gradient_error());
    report.ok = report.ok && n.ok(report.tolerance);
    report.checked_steps += 1;
    report.checked_switches += i > 0 && checked_order[i - 1] != plan ? 1 : 0;
  }
  report.weight_error = weight_error(e, *plans[checked_order.back()], both[checked_order.back()], reference.model());
  report.ok = report.ok && report.weight_error <= report.tolerance;
}

std::int64_t bytes_of(const KeptMemory& kept) {
  std::int64_t sum = 0;
  for (const auto& tensor : kept) sum += std::ssize(tensor);
  return sum;
}

// Bytes of the first that do not lie where the second has them.
std::int64_t moved_bytes(const KeptMemory& first, const KeptMemory& second) {
  check(first.size() == second.size(), "both plans keep the same tensors");
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < first.size(); ++i)
    if (first[i].data() != second[i].data() || first[i].size() != second[i].size()) sum += std::ssize(first[i]);
  return sum;
}

class TimedTurns {
 public:
  TimedTurns(const Experiment& e, const SchedulePair& plans, Element element, const RunOptions& options)
      : e_(e),
        options_(options),
        both_(e, plans, element, random_model_data(e, options.seed, plans[0]->micro_batches), options) {}

  void run(SwitchReport& report) {
    for (int i = 0; i < warm_up_cycles; ++i) cycle(i);
    forget();
    const Seconds start = steady_time();
    for (; report.repeats < most_cycles; ++report.repeats) {
      if (report.repeats >= least_cycles && steady_time() - start >= options_.measure.limit) break;
      cycle(report.repeats);
      note_memory(report);
    }
    summarize(report);
  }

 private:
  using Samples = std::vector<Seconds>;

  void forget() {
    gaps_ = steps_ = {};
    costs_.clear();
    first_steps_ = {};
  }

  // Between the five steps nothing happens but what executors do there anyway.
  void cycle(int number) {
    std::array<TrainingStep, cycle_order.size()> batches;
    for (TrainingStep& batch : batches) batch = training_step(e_, options_.seed, ++done_);
    std::array<StepSpan, cycle_order.size()> spans;
    std::array<std::size_t, cycle_order.size()> plans;
    for (std::size_t i = 0; i < spans.size(); ++i) {
      plans[i] = number % 2 == 0 ? cycle_order[i] : 1 - cycle_order[i];
      both_[plans[i]].train_step(batches[i]);
      spans[i] = both_[plans[i]].span();
    }
    std::array<Seconds, 4> gap, step;
    for (std::size_t i = 1; i < spans.size(); ++i) {
      const std::size_t turn = SwitchReport::turn_of(plans[i - 1], plans[i]);
      gap[turn] = Seconds(spans[i].start - spans[i - 1].finish);
      step[turn] = Seconds(spans[i].finish - spans[i].start);
    }
    keep(gap, step);
  }

  void keep(const std::array<Seconds, 4>& gap, const std::array<Seconds, 4>& step) {
    for (std::size_t turn = 0; turn < gap.size(); ++turn) {
      gaps_[turn].push_back(gap[turn]);
      steps_[turn].push_back(step[turn]);
    }
    const auto at = SwitchReport::turn_of;
    costs_.push_back((gap[at(0, 1)] + gap[at(1, 0)] - gap[at(0, 0)] - gap[at(1, 1)]) / 2);
    for (std::size_t plan = 0; plan < plan_count; ++plan)
      first_steps_[plan].push_back(step[at(1 - plan, plan)] - step[at(plan, plan)]);
  }

  // The most of any cycle, so that a tensor that moves in one of them counts.
  void note_memory(SwitchReport& report) {
    for (std::size_t local = 0; local < both_[0].ranks().size(); ++local) {
      const KeptMemory first = both_[0].kept(local), second = both_[1].kept(local);
      report.kept_bytes = std::max(report.kept_bytes, bytes_of(first));
      report.moved_bytes = std::max(report.moved_bytes, moved_bytes(first, second));
    }
  }

  MedianTime median_time(const Samples& samples) const {
    const auto [low, high] = bootstrap_median(samples, options_.measure.seed);
    return {median(samples), low, high};
  }

  void summarize(SwitchReport& report) const {
    for (std::size_t turn = 0; turn < report.turns.size(); ++turn)
      report.turns[turn] = {median_time(gaps_[turn]), median_time(steps_[turn])};
    report.cost = median_time(costs_);
    for (std::size_t plan = 0; plan < plan_count; ++plan) report.first_step[plan] = median_time(first_steps_[plan]);
  }

  const Experiment& e_;
  const RunOptions& options_;
  BothPlans both_;
  int done_ = 0;  // steps
  std::array<Samples, 4> gaps_, steps_;
  Samples costs_;
  std::array<Samples, plan_count> first_steps_;
};

std::int64_t size_of_element(Element element) {
  return element == Element::Float ? sizeof(float) : sizeof(double);
}

std::int64_t allocated(const Experiment& e, const Schedules& plans, Element element) {
  std::int64_t most = 0;
  for (int rank = 0; rank < e.cluster.gpus(); ++rank)
    most = std::max(most, size_of_element(element) * plan_buffers(plans, rank).all_elements());
  return most;
}

// Executors hold the first values of what lasts beside the tensors, each its own.
void require_memory_of_both(const Experiment& e, const SchedulePair& plans, Element element, bool check_numerics) {
  std::int64_t elements = 0;
  for (int rank = 0; rank < e.cluster.gpus(); ++rank) {
    elements += plan_buffers({plans.begin(), plans.end()}, rank).all_elements();
    for (const auto& plan : plans)
      for (const LastingTensor& tensor : lasting_tensors(*plan, rank)) elements += tensor.name.elements;
  }
  const auto bytes = static_cast<double>(elements * size_of_element(element));
  require_memory(e, e.cluster.gpus(), Bytes(bytes), 1, check_numerics);
}

}  // namespace

void require_alternating(const Experiment& e, const SchedulePair& plans) {
  if (e.workload.phases != Phases::Training)
    throw InputError(
        "--alternate: steps take over nothing from one another without an update; expected "
        "workload.phases training");
  if (!e.workload.whole_layers())
    throw InputError(
        "--alternate: in steps of the layers alone nothing sums the gradients of routers, so that ranks would go on "
        "with different ones; add --set workload.extent=model");
  if (const auto difference = storage_difference(e, *plans[0], *plans[1]))
    throw InputError("--alternate: the other plan does not keep what this one keeps: " + *difference);
}

SwitchReport alternate_on_host(const Experiment& e, const SchedulePair& plans, const RunOptions& options) {
  require_alternating(e, plans);
  const Element element = e.workload.dtype == DType::Fp64 ? Element::Double : Element::Float;
  require_memory_of_both(e, plans, options.check_numerics ? Element::Double : element, options.check_numerics);
  SwitchReport report;
  for (std::size_t plan = 0; plan < plan_count; ++plan) report.alone_bytes[plan] = allocated(e, {plans[plan]}, element);
  report.both_bytes = allocated(e, {plans.begin(), plans.end()}, element);
  if (options.check_numerics) check_switches(e, plans, options, report);
  TimedTurns(e, plans, element, options).run(report);
  return report;
}

}  // namespace dovetail::exec

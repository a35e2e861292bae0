// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/explain_pairs.hpp"

#include <algorithm>

#include "models/base/errors.hpp"
#include "models/price/calibration.hpp"

namespace dovetail::bench {
namespace {

Plan in_pairs(Plan plan) {
  plan.scope = Scope::Batch;
  plan.forward_degree = plan.backward_degree = 1;
  plan.backward_degrees.clear();
  plan.split = Split::Capacity;
  plan.order = Order::DispatchFirst;
  return plan;
}

// Gradients of attention's weights are delayed with pairs alone.
Plan one_by_one(Plan plan) {
  plan.scope = Scope::Layer;
  plan.pair_order = PairOrder::Alternate;
  if (plan.delay_weight_gradient == DelayedWeights::All) plan.delay_weight_gradient = DelayedWeights::None;
  return plan;
}

Experiment with_free_launches(Experiment e) {
  Calibration& costs = e.calibration.edit();
  if (costs.host) costs.host->launch = Seconds(0), costs.host->pace = 0;
  return e;
}

Experiment with_all_multiprocessors(Experiment e) {
  e.overlap = Overlap::Ideal;
  return e;
}

class PairLimits {
 public:
  PairLimits(const Experiment& e, const Plan& plan, const StepOf& step_of, PairsExplained& pairs)
      : e_(e),
        paired_(pairs.chosen ? plan : in_pairs(plan)),
        apart_(pairs.chosen ? one_by_one(plan) : plan),
        step_of_(step_of),
        pairs_(pairs) {}

  ExplainedStep other() const { return step_of_(e_, pairs_.chosen ? apart_ : paired_); }

  void add_all(const ExplainedStep& paired, const ExplainedStep& apart) {
    if (e_.overlap != Overlap::Ideal) add(PairLimit::Multiprocessors, with_all_multiprocessors(e_), paired_, apart_);
    if (e_.calibration->host && paired.metrics.launch_bound + apart.metrics.launch_bound > Seconds(0))
      add(PairLimit::Launches, with_free_launches(e_), paired_, apart_);
    Plan one = paired_, one_apart = apart_;
    one.one_connection = one_apart.one_connection = !paired_.one_connection;
    add(PairLimit::Connections, e_, one, one_apart);
    add_order(apart);
  }

 private:
  void add(PairLimit limit, const Experiment& e, const Plan& paired, const Plan& apart) try {
    pairs_.otherwise.push_back({limit, step_of_(e, paired).metrics.makespan, step_of_(e, apart).metrics.makespan});
  } catch (const InputError&) {  // such a step cannot be built
  }

  // The fastest of the other orders that can be built.
  void add_order(const ExplainedStep& apart) {
    std::optional<Seconds> best;
    for (const auto& [name, order] : pair_order_names) {
      if (order == paired_.pair_order) continue;
      Plan other = paired_;
      other.pair_order = order;
      try {
        const Seconds step = step_of_(e_, other).metrics.makespan;
        best = std::min(best.value_or(step), step);
      } catch (const InputError&) {  // not this one
      }
    }
    if (best) pairs_.otherwise.push_back({PairLimit::Order, *best, apart.metrics.makespan});
  }

  const Experiment& e_;
  Plan paired_, apart_;
  const StepOf& step_of_;
  PairsExplained& pairs_;
};

}  // namespace

std::optional<PairsExplained> explain_pairs(const Experiment& e, const Plan& plan, const ExplainedStep& step,
                                            const StepOf& step_of) {
  const bool exchanges = !e.model.dense() && e.parallelism.ep > 1;
  if (!exchanges || e.workload.phases != Phases::Training || plan.micro_batches < 2) return std::nullopt;
  PairsExplained pairs;
  pairs.chosen = plan.scope == Scope::Batch;
  pairs.one_connection = plan.one_connection;
  pairs.micro_batches = plan.micro_batches;
  PairLimits limits(e, plan, step_of, pairs);
  try {
    pairs.other = limits.other();
    limits.add_all(pairs.chosen ? step : *pairs.other, pairs.chosen ? *pairs.other : step);
  } catch (const InputError& refusal) {
    pairs.refusal = refusal.message();
  }
  return pairs;
}

}  // namespace dovetail::bench

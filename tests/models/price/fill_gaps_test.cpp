// SPDX-License-Identifier: Apache-2.0
// Gradients of weights in the gaps of computation.
#include "models/price/fill_gaps.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "models/price/build_schedule.hpp"
#include "models/time/analytic_backend.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/experiments.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;

namespace {

Plan delayed(Plan plan, DelayedWeights delay) {
  plan.delay_weight_gradient = delay;
  return plan;
}

// The ops of each stream that make no gradients of weights, as they come.
std::map<int, std::vector<std::string>> in_turn(const Schedule& s) {
  std::map<int, std::vector<std::string>> names;
  for (const Op& op : s.ops)
    if (op.half != Half::Weights) names[op.stream].push_back(to_string(op));
  return names;
}

// Whether gradients of weights of a micro-batch are made after another one has come to the same op.
bool falls_behind(const Schedule& s) {
  std::map<std::tuple<int, int, OpKind>, std::map<int, int>> waiting;  // gradients of weights, by micro-batch
  for (const Op& op : s.ops) {
    if (op.half == Half::Both) continue;
    std::map<int, int>& of_op = waiting[{s.class_of(op), op.layer, op.kind}];
    if (op.half == Half::Weights) {
      --of_op[op.micro_batch];
      continue;
    }
    ++of_op[op.micro_batch];
    for (const auto& [micro_batch, count] : of_op)
      if (micro_batch != op.micro_batch && count > 0) return true;
  }
  return false;
}

double step(const Experiment& e, const Plan& plan) {
  std::vector<double> scratch;
  return analytic_makespan(price_plan(e, plan), scratch).value();
}

}  // namespace

TEST_CASE("Gradients of weights leave their places alone, and wait for one micro-batch at most") {
  int moved = 0, done = 0;
  for (unsigned seed = 1; done < test::cases(60); ++seed) {
    test::Random random(seed);
    const Experiment e = test::random_experiment(random);
    const Plan plan = delayed(test::random_legal_plan(random, e), DelayedWeights::Fill);
    if (test::refusal(plan, e) || e.workload.phases != Phases::Training) continue;
    ++done;
    INFO("seed " << seed << ": " << test::describe(e, plan));
    const Schedule filled = build_schedule(e, plan), all = build_schedule(e, delayed(plan, DelayedWeights::All));
    CHECK_NOTHROW(validate(filled));
    CHECK(filled.ops.size() == all.ops.size());
    CHECK(in_turn(filled) == in_turn(all));
    CHECK(!falls_behind(filled));
    moved += std::ranges::equal(
                 filled.ops, all.ops, {}, [](const Op& op) { return to_string(op); },
                 [](const Op& op) { return to_string(op); })
                 ? 0
                 : 1;
  }
  CHECK(moved >= done / 3);
}

// Lancet's case: exchanges leave computation idle, and gradients of weights fill that.
TEST_CASE("A step whose exchanges leave gaps is faster with gradients of weights in them") {
  Experiment e = test::round_numbers(4);
  const Plan plan;
  const double none = step(e, plan), filled = step(e, delayed(plan, DelayedWeights::Fill)),
               all = step(e, delayed(plan, DelayedWeights::All));
  CAPTURE(none, all, filled);
  CHECK(filled < none);
  CHECK(filled <= all * (1 + 1e-9));
}

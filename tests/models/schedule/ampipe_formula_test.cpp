// SPDX-License-Identifier: Apache-2.0
// AMPipe's closed form of a layer's forward time (its appendix C) against the schedule that it describes.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "models/plan/plan.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "models/time/analytic_backend.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;

namespace {

struct LayerCost {
  double attention, all_to_all, experts;  // of all chunks together
};

// Equal chunks of attention, as without a causal mask, and nothing else takes time.
double scheduled(const LayerCost& cost, int p) {
  Experiment e = test::round_numbers();
  e.parallelism = {.dp = 4, .mp = 1, .ep = 4, .esp = 1, .pp = 1, .edp = 1};
  e.workload.phases = Phases::ForwardOnly;
  e.workload.capacity_factor = 2;
  Plan plan;
  plan.scope = Scope::Block;
  plan.forward_degree = plan.backward_degree = p;
  PricedSchedule priced = price_plan(e, plan);
  for (const OpId i : priced.duration.ids()) {
    double seconds = 0;
    switch (priced.schedule->ops[i].kind) {
      case OpKind::Attention:
        seconds = cost.attention / p;
        break;
      case OpKind::Dispatch:
      case OpKind::Combine:
        seconds = cost.all_to_all / p;
        break;
      case OpKind::Expert:
        seconds = cost.experts / p;
        break;
      default:
        break;
    }
    priced.duration[i] = Seconds(seconds);
  }
  std::vector<double> scratch;
  return analytic_makespan(priced, scratch).value();
}

double formula(const LayerCost& cost, int p) {
  const auto [a, c, m] = cost;
  return a / p + std::max(a, c) / p * (p - 1) + std::max(m, c) / p * p + c / p;
}

}  // namespace

TEST_CASE("AMPipe's formula is exact for two chunks and never too low for more") {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> seconds(.1, 10);
  int above = 0;
  for (int i = 0; i < 200; ++i) {
    const LayerCost cost{seconds(random), seconds(random), seconds(random)};
    CHECK(formula(cost, 2) == Approx(scheduled(cost, 2)).epsilon(1e-12));
    for (int p : {3, 4, 8}) {
      CHECK(formula(cost, p) >= scheduled(cost, p) * (1 - 1e-12));
      above += formula(cost, p) > scheduled(cost, p) * 1.001;
    }
  }
  CHECK(above > 0);
}

TEST_CASE("Without chunks AMPipe's formula leaves out what nothing hides") {
  const LayerCost cost{3, 2, 5};
  CHECK(scheduled(cost, 1) == Approx(3 + 2 + 5 + 2));
  CHECK(formula(cost, 1) == Approx(3 + 5 + 2));
}

TEST_CASE("Three chunks by hand") {
  // A/p = 1, C/p = 2, M/p = 1: attention 0-3; sends 1-3, 3-5, 5-7; experts 3-4, 5-6, 7-8; back 7-9, 9-11, 11-13.
  CHECK(scheduled({3, 6, 3}, 3) == Approx(13));
  CHECK(formula({3, 6, 3}, 3) == Approx(1 + 2 * 2 + 2 * 3 + 2));
  // A/p = 1, C/p = 1, M/p = 3: the last send ends at 4, experts 3-12 (after the attention), the last returns at 13.
  CHECK(scheduled({3, 3, 9}, 3) == Approx(13));
}

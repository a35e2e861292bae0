// SPDX-License-Identifier: Apache-2.0
#include "planners/online/bucketed_search.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "models/base/errors.hpp"
#include "planners/closed_form/four_case.hpp"

using namespace dovetail;
using namespace dovetail::planners;

namespace {

BucketedSearch search(std::vector<std::string> strategies, double length = .5) {
  return BucketedSearch({std::move(strategies), "test", length, {}});
}

std::size_t step(BucketedSearch& planner, double f, double seconds) {
  const std::size_t chosen = planner.choose({f});
  planner.report(Seconds(seconds));
  return chosen;
}

// A layer whose rows grow with f, by linear or hierarchical all-to-alls at degrees 1, 2, 4, 8; beside it `dense` that
// does not grow. The hierarchical one moves everything twice with fewer messages, so it is better for small f.
struct Layer {
  double alpha, all_to_all, expert, dense;  // seconds; the second and third at f = 1

  explicit Layer(std::mt19937& engine, double dense_share) {
    const auto factor = [&] { return std::pow(3.0, std::uniform_real_distribution(-1.0, 1.0)(engine)); };
    alpha = 300e-6 * factor();
    all_to_all = 2e-3 * factor();
    expert = 4e-3 * factor();
    dense = dense_share / (1 - dense_share) * (2 * all_to_all + expert);
  }

  double time(std::size_t strategy, double f) const {
    const bool hierarchical = strategy >= 4;
    const int degree = 1 << (strategy % 4);
    const ChunkTime exchange{Seconds(hierarchical ? alpha / 4 : alpha),
                             Seconds(f * all_to_all * (hierarchical ? 1.3 : 1))};
    const MoeTimes times{exchange, {}, {}, {Seconds(50e-6), Seconds(f * expert)}};
    return dense + exact_makespan(times, CommStreams::One, degree, Seconds(0)).value();
  }
};

std::vector<std::string> eight() {
  std::vector<std::string> names;
  for (const char* all_to_all : {"linear", "2dh"})
    for (int degree : {1, 2, 4, 8}) names.push_back(fmt::format("{} {}", all_to_all, degree));
  return names;
}

// Capacity factors of a run as Tutel's figure 1 shows them: a steep rise within the first steps, a slow fall, up to
// 4.38 times the smallest; with two decimals.
double factor_of(int step, int steps, std::mt19937& engine) {
  const double at = static_cast<double>(step) / steps;
  const double trend = 1 + 3.1 * std::exp(-4 * at) * (1 - std::exp(-60 * at));
  const double f = trend * (1 + .07 * std::normal_distribution()(engine));
  return std::round(100 * std::clamp(f, 1.0, 4.38)) / 100;
}

struct Regrets {
  double total, last;  // of all steps, of the last 300; over the best strategy of each step
};

Regrets run(const Layer& layer, double length, double noise, int steps, std::mt19937& engine) {
  BucketedSearch planner = search(eight(), length);
  double spent = 0, least = 0, spent_last = 0, least_last = 0;
  for (int i = 0; i < steps; ++i) {
    const double f = factor_of(i, steps, engine);
    double best = 1e300;
    for (std::size_t s = 0; s < 8; ++s) best = std::min(best, layer.time(s, f));
    const double time = layer.time(planner.choose({f}), f);
    planner.report(Seconds(time * (1 + noise * std::clamp(std::normal_distribution()(engine), -4.0, 4.0))));
    spent += time, least += best;
    if (i >= steps - 300) spent_last += time, least_last += best;
  }
  return {spent / least - 1, spent_last / least_last - 1};
}

}  // namespace

// Tutel's Algorithm 2 by hand: two strategies, L = .5.
TEST_CASE("bucketed_search tries every strategy once in a bucket, then takes its best") {
  BucketedSearch planner = search({"a", "b"});
  CHECK(step(planner, 1.0, 2.4) == 0);  // nothing known
  CHECK(step(planner, 1.0, 2) == 1);    // a was tried
  CHECK(step(planner, 1.0, 2) == 1);    // both tried at 1.0: b
  CHECK(planner.buckets() == 1);
  CHECK(step(planner, 1.4, 2.8) == 1);  // 1.4 is in [1, 1.5], where both were tried
  CHECK(planner.buckets() == 1);
  CHECK(step(planner, 1.6, 3) == 0);  // a new bucket from 1.6 on
  CHECK(planner.buckets() == 2);
  CHECK(step(planner, 2.0, 3) == 1);  // in [1.6, 2.1], untried there
  CHECK(planner.buckets() == 2);
  // .8 begins a bucket up to 1.3; 1.4 then begins the next, which takes 1.6 (up to 1.9) and leaves 2.0 to a third.
  CHECK(step(planner, .8, 2) == 0);
  CHECK(planner.buckets() == 3);
  // In [1.4, 1.9]: a took 3 s at 1.6, b 2.8 s at 1.4. At 1.4, times in proportion: a 3 * 1.4 / 1.6 = 2.625.
  CHECK(step(planner, 1.5, 2.8) == 0);
}

TEST_CASE("bucketed_search pools by how times grow with the load") {
  BucketedSearch planner = search({"a", "b"}, 10);
  CHECK(planner.growth() == 1);  // nothing known
  // t = 3 f^.5: a fit of logarithms gives .5, but for the weight of the assumed 1.
  for (double f : {1.0, 2.0, 4.0}) planner.report({f}, 0, Seconds(3 * std::sqrt(f)));
  // x = 0, ln 2, 2 ln 2: sum of squares about the mean 2 (ln 2)^2 = .9609; (.01 + .5 * .9609) / (.01 + .9609)
  CHECK(planner.growth() == Approx(.50515).epsilon(1e-4));
  // b took 5 s at 4, which is about 2.5 s at 1: better than a's 3 s. In proportion it would be 1.25 s.
  planner.report({4.0}, 1, Seconds(5));
  CHECK(planner.choose({1.5}) == 1);
  planner.report({4.0}, 1, Seconds(8));  // mean 6.5 s: 3.25 s at 1
  CHECK(planner.choose({1.5}) == 0);
}

TEST_CASE("bucketed_search leaves out what cannot be the best") {
  BucketedSearch planner = search({"a", "b"});
  step(planner, 1.0, 2), step(planner, 1.0, 1);  // a takes twice as long
  CHECK(step(planner, 1.8, 1.8) == 1);           // even if a took no longer there: 2 > 1.05 * 1.8
  CHECK(planner.choose({1.9}) == 1);
  CHECK(planner.choose({2.4}) == 0);  // 2 < 1.05 * 2.4
  CHECK(planner.choose({.4}) == 0);   // the other way round: 2 < 1.05 / .4
}

TEST_CASE("bucketed_search: loads closer than a hundredth of a bucket are one") {
  BucketedSearch planner = search({"a", "b", "c"});
  for (double f : {2.0, 2.001, 2.002}) step(planner, f, 1);
  CHECK(planner.choose({2.001}) == 0);
  const std::string state = planner.state();
  CHECK(state.find("\"load\": 2.0") != std::string::npos);
  CHECK(state.find("2.001") == state.rfind("2.001"));  // only in what is pending
}

TEST_CASE("bucketed_search refuses lengths and loads without meaning") {
  CHECK_THROWS_WITH(search({"a"}, 0), Catch::Contains("bucket length 0, expected a number above 0"));
  CHECK_THROWS_AS(search({"a"}, NAN), InputError);
  BucketedSearch planner = search({"a"}, 1e-9);
  CHECK_THROWS_WITH(planner.choose({1e12}), Catch::Contains("too large"));
}

// The stated bound, with 2 % noise and L = .5 over 2,000 steps, for layers alone and for steps of which half does not
// grow with f.
TEST_CASE("bucketed_search: total regret below 1 %, of the last 300 steps below half of that") {
  std::mt19937 engine(11);
  for (double dense : {0.0, .5}) {
    double total = 0, last = 0, worst = 0, worst_last = 0, fine = 0;
    constexpr int layers = 40;
    for (int i = 0; i < layers; ++i) {
      const Layer layer(engine, dense);
      const Regrets r = run(layer, .5, .02, 2000, engine);
      total += r.total / layers, last += r.last / layers;
      worst = std::max(worst, r.total), worst_last = std::max(worst_last, r.last);
      fine += run(layer, .1, .02, 2000, engine).total / layers;
    }
    UNSCOPED_INFO(
        fmt::format("dense {:.0f} %: mean {:.2f} %, worst {:.2f} %; last 300 {:.2f} %, worst {:.2f} %; L = .1 "
                    "{:.2f} %",
                    100 * dense, 100 * total, 100 * worst, 100 * last, 100 * worst_last, 100 * fine));
    CHECK(total <= .01);
    CHECK(last <= .005);
    CHECK(worst <= .015);  // of any layer
    CHECK(worst_last <= .01);
    CHECK(fine > total);  // short buckets share less
  }
}

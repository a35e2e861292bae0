// SPDX-License-Identifier: Apache-2.0
// Rates of activities that share: worked examples, and what fairness means, on random ones.
#include "models/price/fair_rates.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "tests/support/hand_made.hpp"

using namespace dovetail;
using namespace dovetail::test;

namespace {

struct Solved {
  PricedSchedule priced;
  std::vector<double> rates;
};

Solved solve(int resources, std::span<const std::vector<Demand>> activities) {
  HandMade made(1, resources);
  std::vector<Running> running;
  for (const std::vector<Demand>& demands : activities) running.push_back({made.activity(demands)});
  Solved solved{made.priced(), {}};
  FairRates(solved.priced).solve(running);
  for (const Running& r : running) solved.rates.push_back(r.rate);
  return solved;
}

std::vector<double> rates(int resources, std::initializer_list<std::vector<Demand>> activities) {
  return solve(resources, {activities.begin(), activities.size()}).rates;
}

// On a network the demand of a flow on a link is its bytes over the link's bandwidth.
std::vector<std::vector<Demand>> random_flows(std::mt19937& random, int links) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<std::uint32_t>(n)); };
  std::vector<double> bandwidth;
  for (int link = 0; link < links; ++link) bandwidth.push_back(1 + below(8));
  std::vector<std::vector<Demand>> flows(static_cast<std::size_t>(1 + below(40)));
  for (std::vector<Demand>& flow : flows) {
    const double bytes = 1 + below(100);
    const int crossing = 1 + below(3);  // flows that an activity stands for, on each link
    for (int link = 0; link < links; ++link)
      if (below(3) == 0 || (link == 0 && below(2) == 0))
        flow.push_back(use(link, crossing * bytes / bandwidth[static_cast<std::size_t>(link)], crossing));
    if (flow.empty()) flow.push_back(use(0, crossing * bytes / bandwidth[0], crossing));
  }
  return flows;
}

}  // namespace

TEST_CASE("What an activity cannot use of a resource goes to the others, all of it") {
  // 100 flows share resource 2: .01 each. One of them is on resource 1 with two others, of which one is on resource 0
  // with a fourth. Resource 1: (1 - .01) / 2 = .495 each. Resource 0: the rest, .505.
  std::vector<std::vector<Demand>> flows{{use(0, 1)}, {use(0, 1), use(1, 1)}, {use(1, 1)}, {use(1, 1), use(2, 1)}};
  for (int i = 0; i < 99; ++i) flows.push_back({use(2, 1)});
  const std::vector<double> rate = solve(3, flows).rates;
  CHECK(rate[0] == Approx(.505).epsilon(1e-12));
  CHECK(rate[1] == Approx(.495).epsilon(1e-12));
  CHECK(rate[2] == Approx(.495).epsilon(1e-12));
  CHECK(rate[3] == Approx(.01).epsilon(1e-12));
}

TEST_CASE("Multiplicities weigh") {
  const auto rate = rates(1, {{use(0, 2, 3)}, {use(0, 1)}});  // 3/4 and 1/4 of the resource
  CHECK(rate[0] == Approx(.75 / 2).epsilon(1e-12));
  CHECK(rate[1] == Approx(.25).epsilon(1e-12));
}

TEST_CASE("Two bottlenecks that hold each other back in a circle are both used up") {
  // Each activity takes 1 of one resource and .1 of the other for each unit of progress: rates 1 / 1.1.
  const auto rate = rates(2, {{use(0, 1), use(1, .1)}, {use(0, .1), use(1, 1)}});
  CHECK(rate[0] == Approx(1 / 1.1).epsilon(1e-10));
  CHECK(rate[1] == Approx(1 / 1.1).epsilon(1e-10));
}

TEST_CASE("Flows on links are max-min fair") {
  std::mt19937 random(1);
  for (int draw = 0; draw < 300; ++draw) {
    constexpr int links = 12;
    const auto flows = random_flows(random, links);
    const Solved solved = solve(links, flows);
    std::vector<double> used(links), most(links);  // of a link; of a link by one flow
    for (std::size_t i = 0; i < flows.size(); ++i)
      for (const Demand& d : flows[i]) {
        const double use = solved.rates[i] * d.seconds.value();
        used[static_cast<std::size_t>(d.resource)] += use;
        double& largest = most[static_cast<std::size_t>(d.resource)];
        largest = std::max(largest, use / d.multiplicity);
      }
    for (double use : used) REQUIRE(use <= 1 + 1e-9);
    for (std::size_t i = 0; i < flows.size(); ++i)
      REQUIRE(std::ranges::any_of(flows[i], [&](const Demand& d) {  // a full link where no flow gets more than it
        const auto link = static_cast<std::size_t>(d.resource);
        return used[link] > 1 - 1e-9 && solved.rates[i] * d.seconds.value() / d.multiplicity > most[link] * (1 - 1e-9);
      }));
  }
}

// SPDX-License-Identifier: Apache-2.0
#include "planners/closed_form/four_case.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <initializer_list>
#include <random>
#include <vector>

#include "models/question/volumes.hpp"

using namespace dovetail;
using namespace dovetail::planners;

namespace {

// A list scheduler of first in, first out streams: the formulas' reference.
class Streams {
 public:
  int run(std::size_t stream, double duration, std::initializer_list<int> after = {}) {
    double start = free_[stream];
    for (int op : after) start = std::max(start, finish_[static_cast<std::size_t>(op)]);
    finish_.push_back(start + duration);
    free_[stream] = finish_.back();
    return static_cast<int>(finish_.size()) - 1;
  }
  double makespan() const { return *std::max_element(finish_.begin(), finish_.end()); }

 private:
  std::array<double, 3> free_{};
  std::vector<double> finish_;
};

// Event simulation of one MoE layer whose chunk i takes this share of the work.
double simulate(const MoeTimes& t, CommStreams streams, const std::vector<double>& shares, double all_reduce) {
  const std::size_t inter = 0, intra = streams == CommStreams::InterIntra ? 1 : 0, compute = 2;
  const auto time = [](const ChunkTime& c, double share) { return c.alpha.value() + share * c.work.value(); };
  Streams s;
  std::vector<int> gathered, computed;
  for (double share : shares) {
    const int dispatched = s.run(inter, time(t.all_to_all, share));
    gathered.push_back(s.run(intra, time(t.all_gather, share), {dispatched}));
  }
  s.run(inter, all_reduce);
  for (std::size_t i = 0; i < shares.size(); ++i)
    computed.push_back(s.run(compute, time(t.expert, shares[i]), {gathered[i]}));
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const int scattered = s.run(intra, time(t.reduce_scatter, shares[i]), {computed[i]});
    s.run(inter, time(t.all_to_all, shares[i]), {scattered});
  }
  return s.makespan();
}

class Random {
 public:
  double uniform(double low, double high) { return std::uniform_real_distribution(low, high)(engine_); }
  int integer(int low, int high) { return std::uniform_int_distribution(low, high)(engine_); }
  ChunkTime chunk() { return {Seconds(uniform(0, .1)), Seconds(uniform(0, 1))}; }
  MoeTimes moe() { return {chunk(), chunk(), chunk(), chunk()}; }
  Seconds all_reduce() { return Seconds(integer(0, 2) == 0 ? 0 : uniform(0, 3)); }

 private:
  std::mt19937 engine_{20250601};
};

std::vector<double> equal_shares(int degree) {
  return std::vector<double>(static_cast<std::size_t>(degree), 1.0 / degree);
}

bool equal(double a, double b) {
  return std::abs(a - b) <= 1e-12 * std::max(a, b);
}

constexpr std::array both{CommStreams::InterIntra, CommStreams::One};

}  // namespace

TEST_CASE("exact makespans equal an event simulation in 60,000 random cases each") {
  Random random;
  for (CommStreams streams : both) {
    int mismatches = 0;
    for (int i = 0; i < 60'000; ++i) {
      const MoeTimes t = random.moe();
      const int r = random.integer(1, 8);
      const Seconds R = random.all_reduce();
      mismatches += !equal(exact_makespan(t, streams, r, R).value(), simulate(t, streams, equal_shares(r), R.value()));
    }
    CHECK(mismatches == 0);
  }
}

TEST_CASE("with an all-reduce the makespan is that without, or the link's own time") {
  Random random;
  for (CommStreams streams : both)
    for (int i = 0; i < 10'000; ++i) {
      const MoeTimes t = random.moe();
      const int r = random.integer(1, 8);
      const std::int64_t capacity = random.integer(r, 20);
      const Seconds R = random.all_reduce();
      std::vector<double> shares;
      for (int c = 0; c < r; ++c)
        shares.push_back(static_cast<double>(chunk_rows(capacity, r, c).size()) / static_cast<double>(capacity));
      const Seconds time = std::max(chunked_makespan(t, streams, capacity, r), link_time(t, streams, r) + R);
      if (!equal(time.value(), simulate(t, streams, shares, R.value()))) FAIL("case " << i);
    }
}

TEST_CASE("the paper's T1..T4 are exact when all-gather and reduce-scatter take equally long") {
  Random random;
  std::array<int, 4> seen{};
  for (int i = 0; i < 20'000; ++i) {
    MoeTimes t = random.moe();
    t.reduce_scatter = t.all_gather;
    const int r = random.integer(1, 8);
    const Seconds R = random.all_reduce();
    const PaperCase paper = paper_case(t, r, R);
    ++seen[static_cast<std::size_t>(paper.number - 1)];
    if (!equal(paper.time.value(), exact_makespan(t, CommStreams::InterIntra, r, R).value())) FAIL("case " << i);
  }
  for (int count : seen) CHECK(count > 100);
}

// How often depends on what is drawn. Log-uniform over two decades, degrees to 8: 24 %, by 18 % on average. Uniform
// in (0, 1) without R: 27 %, by 11 %.
TEST_CASE("else they are too low in 21-24 % of random cases, never too high") {
  Random random;
  const auto decades = [&] { return Seconds(std::pow(10.0, random.uniform(-1, 1))); };
  int low = 0;
  double deficit = 0;
  constexpr int cases = 60'000;
  for (int i = 0; i < cases; ++i) {
    MoeTimes t;  // one chunk's times drawn directly
    for (ChunkTime* c : {&t.all_to_all, &t.all_gather, &t.reduce_scatter, &t.expert}) c->alpha = decades();
    const int r = random.integer(1, 8);
    const Seconds R = decades();
    const double ratio = paper_case(t, r, R).time / exact_makespan(t, CommStreams::InterIntra, r, R);
    if (ratio > 1 + 1e-12) FAIL("too high in case " << i);
    if (ratio < 1 - 1e-12) {
      ++low;
      deficit += 1 - ratio;
    }
  }
  const double share = static_cast<double>(low) / cases, mean_deficit = deficit / low;
  CHECK(share > .21);
  CHECK(share < .24);
  CHECK(mean_deficit > .15);
  CHECK(mean_deficit < .25);
}

TEST_CASE("the makespan is convex in the degree") {
  Random random;
  for (CommStreams streams : both)
    for (int i = 0; i < 2'000; ++i) {
      const MoeTimes t = random.moe();
      const Seconds R = random.all_reduce();
      for (int r = 2; r < 20; ++r) {
        const Seconds neighbours = exact_makespan(t, streams, r - 1, R) + exact_makespan(t, streams, r + 1, R);
        if (2 * exact_makespan(t, streams, r, R) > neighbours * (1 + 1e-12)) FAIL("case " << i << ", degree " << r);
      }
    }
}

TEST_CASE("the search finds the best degree up to 64, and among candidates") {
  Random random;
  const std::vector<int> candidates{1, 2, 3, 5, 8, 16, 40};
  for (CommStreams streams : both)
    for (int i = 0; i < 5'000; ++i) {
      const MoeTimes t = random.moe();
      const Seconds R = random.all_reduce();
      Seconds best = exact_makespan(t, streams, 1, R), best_candidate = best;
      for (int r = 2; r <= 64; ++r) best = std::min(best, exact_makespan(t, streams, r, R));
      for (int r : candidates) best_candidate = std::min(best_candidate, exact_makespan(t, streams, r, R));
      const DegreeChoice any = best_degree(t, streams, R, 64);
      const DegreeChoice among = best_degree(t, streams, R, candidates);
      // If times differ by rounding only, the search may stop one degree early.
      if (!equal(any.time.value(), best.value()) || !equal(among.time.value(), best_candidate.value()))
        FAIL("case " << i);
      if (any.time != exact_makespan(t, streams, any.degree, R)) FAIL("time of degree " << any.degree);
    }
}

TEST_CASE("one worked layer") {
  // Chunks of degree 2: A = 1 + 4/2 = 3, G = 2, S = 4, E = 5.
  const MoeTimes t{
      {Seconds(1), Seconds(4)}, {Seconds(1), Seconds(2)}, {Seconds(1), Seconds(6)}, {Seconds(1), Seconds(8)}};
  // inter A 0-3-6, intra G 3-5, 6-8, compute E 5-10, 10-15, intra S 10-14, 15-19, inter C 14-17, 19-22
  CHECK(exact_makespan(t, CommStreams::InterIntra, 2, Seconds(0)).value() == Approx(22));
  // Case 2: Q1 3 > 2, Q2 2*5 > 2*1*3; T2 = 2*3 + 2 + 4 + 2*5
  const PaperCase two = paper_case(t, 2, Seconds(0));
  CHECK(two.number == 2);
  CHECK(two.time.value() == Approx(22));
  // inter A 0-3-6, R 6-21, C 21-24-27. Case 1: Q5 15 > 10 - 6 + 6; T1 = 4*3 + 15
  CHECK(exact_makespan(t, CommStreams::InterIntra, 2, Seconds(15)).value() == Approx(27));
  CHECK(paper_case(t, 2, Seconds(15)).number == 1);
  CHECK(paper_case(t, 2, Seconds(15)).time.value() == Approx(27));
  // one stream: A 0-3 G 3-5 A 5-8 G 8-10, E 5-10-15, S 10-14 C 14-17 S 17-21 C 21-24
  CHECK(exact_makespan(t, CommStreams::One, 2, Seconds(0)).value() == Approx(24));
}

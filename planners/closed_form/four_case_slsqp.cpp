// SPDX-License-Identifier: Apache-2.0
// Every quantity of the paper's cases is c0 + c1 r + c2 / r of the real degree r, since a chunk takes alpha + work / r.
#include "planners/closed_form/four_case_slsqp.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "models/base/build_info.hpp"
#include "models/base/errors.hpp"

#if DOVETAIL_HAS_NLOPT
#include <nlopt.hpp>

namespace dovetail::planners {
namespace {

struct Curve {
  double constant = 0, growing = 0, shrinking = 0;
  double at(double r) const { return constant + growing * r + shrinking / r; }
  double slope(double r) const { return growing - shrinking / (r * r); }
  friend Curve operator+(const Curve& a, const Curve& b) {
    return {a.constant + b.constant, a.growing + b.growing, a.shrinking + b.shrinking};
  }
  friend Curve operator*(double s, const Curve& c) { return {s * c.constant, s * c.growing, s * c.shrinking}; }
  friend Curve operator-(const Curve& a) { return -1.0 * a; }
  friend Curve operator-(const Curve& a, const Curve& b) { return a + -b; }
};

Curve one_chunk(const ChunkTime& c) {
  return {c.alpha.value(), 0, c.work.value()};
}
Curve all_chunks(const ChunkTime& c) {
  return {c.work.value(), c.alpha.value(), 0};
}

struct Problem {
  Curve time;                       // to be minimised
  std::array<Curve, 3> at_least_0;  // where the case holds
};

// The paper's cases; one that holds for several reasons is a problem for each. Times in units of `unit`.
std::vector<Problem> cases(const MoeTimes& t, Seconds all_reduce, double unit) {
  const auto chunk = [&](const ChunkTime& c) { return 1 / unit * one_chunk(c); };
  const auto chunks = [&](const ChunkTime& c) { return 1 / unit * all_chunks(c); };
  const Curve A = chunk(t.all_to_all), GS = chunk(t.all_gather) + chunk(t.reduce_scatter);
  const Curve rA = chunks(t.all_to_all), rGS = chunks(t.all_gather) + chunks(t.reduce_scatter), rE = chunks(t.expert);
  const Curve R{all_reduce.value() / unit, 0, 0};
  const Curve more_A = 2 * (rA - A);  // 2 (r - 1) A
  const Curve Q1 = A - chunk(t.all_gather), Q2 = rE - more_A, Q3 = rE - (rGS - GS), Q4 = R - GS;
  const Curve Q5 = R - (rE - more_A + GS), Q6 = R - (rGS - more_A);  // Q7 is Q5
  const Curve T1 = 2 * rA + R, T2 = 2 * A + GS + rE, T3 = 2 * rA + GS, T4 = 2 * A + rGS;
  return {{T1, {Q1, -Q2, Q4}}, {T1, {Q1, Q2, Q5}},   {T1, {-Q1, -Q3, Q6}}, {T1, {-Q1, Q3, Q5}},
          {T2, {Q1, Q2, -Q5}}, {T2, {-Q1, Q3, -Q5}}, {T3, {Q1, -Q2, -Q4}}, {T4, {-Q1, -Q3, -Q6}}};
}

double value(unsigned, const double* r, double* slope, void* curve) {
  const Curve& c = *static_cast<const Curve*>(curve);
  if (slope != nullptr) *slope = c.slope(*r);
  return c.at(*r);
}

double negative(unsigned, const double* r, double* slope, void* curve) {
  const double v = value(1, r, slope, curve);
  if (slope != nullptr) *slope = -*slope;
  return -v;
}

constexpr double tolerance = 1e-8;

// SLSQP's real degree from a start; where the case does not hold there it has found nothing.
bool minimise(Problem& problem, double largest, double& r) {
  nlopt::opt slsqp(nlopt::LD_SLSQP, 1);
  slsqp.set_lower_bounds(1);
  slsqp.set_upper_bounds(largest);
  slsqp.set_min_objective(value, &problem.time);
  for (Curve& curve : problem.at_least_0) slsqp.add_inequality_constraint(negative, &curve, tolerance);
  slsqp.set_xtol_rel(1e-6);
  slsqp.set_maxeval(200);
  std::vector<double> x{r};
  double time = 0;
  try {
    slsqp.optimize(x, time);
  } catch (const nlopt::roundoff_limited&) {  // x is as good as it gets
  } catch (const std::runtime_error&) {
    return false;
  }
  r = std::clamp(x.front(), 1.0, largest);
  return std::ranges::all_of(problem.at_least_0, [&](const Curve& c) { return c.at(r) >= -1e-6; });
}

}  // namespace

DegreeChoice slsqp_degree(const MoeTimes& times, Seconds all_reduce, std::span<const int> candidates) {
  check(!candidates.empty(), "no candidate degree");
  const double largest = candidates.back();
  const double unit = std::max(paper_case(times, 1, all_reduce).time.value(), 1e-30);
  double degree = 1, least = paper_case(times, 1, all_reduce).time.value() / unit;  // degree 1 is in some case
  for (Problem& problem : cases(times, all_reduce, unit))
    for (double start : {1.0, (1 + largest) / 2, largest}) {
      double r = start;
      if (!minimise(problem, largest, r) || problem.time.at(r) >= least) continue;
      degree = r;
      least = problem.time.at(r);
    }
  const auto above = std::ranges::lower_bound(candidates, degree - tolerance);
  const int ceiling = above == candidates.end() ? candidates.back() : *above;
  const int floor = above == candidates.begin() || ceiling <= degree ? ceiling : *(above - 1);
  const auto rounded = [&](int r) { return DegreeChoice{r, paper_case(times, r, all_reduce).time}; };
  const DegreeChoice low = rounded(floor), high = rounded(ceiling);
  return high.time < low.time ? high : low;
}

}  // namespace dovetail::planners

#else

namespace dovetail::planners {

DegreeChoice slsqp_degree(const MoeTimes&, Seconds, std::span<const int>) {
  throw DeviceError("planner four_case_slsqp", "not in this build; apt-get install libnlopt-cxx-dev and build again");
}

}  // namespace dovetail::planners

#endif

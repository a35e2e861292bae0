// SPDX-License-Identifier: Apache-2.0
#include "models/base/fit.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <utility>

#include "models/base/errors.hpp"

namespace dovetail {
namespace {

// Least squares of A (alpha, beta) = 1 with rows (1 / t, n / t); where that makes one of the two negative, the best is
// on the edge where it is 0.
Eigen::Vector2d solve(const Eigen::MatrixX2d& a) {
  const Eigen::VectorXd ones = Eigen::VectorXd::Ones(a.rows());
  Eigen::Vector2d best = a.colPivHouseholderQr().solve(ones);
  for (Eigen::Index negative : {0, 1}) {
    if (best[negative] >= 0) continue;
    const auto other = a.col(1 - negative);
    best[negative] = 0;
    best[1 - negative] = other.sum() / other.squaredNorm();
    break;
  }
  return best;
}

double r_squared(const std::vector<FitPoint>& points) {
  double weights = 0, sum = 0;
  for (const FitPoint& p : points) {
    const double t = p.time.value(), w = 1 / (t * t);
    weights += w;
    sum += w * t;
  }
  double residual = 0, total = 0;
  for (const FitPoint& p : points) {
    const double from_mean = sum / weights / p.time.value() - 1;
    residual += p.error * p.error;
    total += from_mean * from_mean;
  }
  return total > 0 ? 1 - residual / total : 1;
}

// Least squares of A x = 1 over some columns of A; none: not all coefficients are above 0.
std::optional<Eigen::VectorXd> solve_some(const Eigen::MatrixXd& a, const std::vector<Eigen::Index>& columns) {
  const Eigen::MatrixXd some = a(Eigen::all, columns);
  Eigen::VectorXd x = some.colPivHouseholderQr().solve(Eigen::VectorXd::Ones(a.rows()));
  if (!(x.array() > 0).all()) return {};
  return x;
}

// The best choice of columns, by trying all: there are few. With fewer columns where more do not help.
Eigen::VectorXd solve_nonnegative(const Eigen::MatrixXd& a, std::size_t most) {
  constexpr double better = 1 - 1e-9;
  Eigen::VectorXd best = Eigen::VectorXd::Zero(a.cols());
  double least = HUGE_VAL;
  for (std::size_t count = 1; count <= most; ++count)
    for (unsigned mask = 1; mask < 1U << a.cols(); ++mask) {
      if (static_cast<std::size_t>(std::popcount(mask)) != count) continue;
      std::vector<Eigen::Index> columns;
      for (Eigen::Index j = 0; j < a.cols(); ++j)
        if ((mask >> j & 1U) != 0) columns.push_back(j);
      const std::optional<Eigen::VectorXd> x = solve_some(a, columns);
      if (!x) continue;
      const double error = (a(Eigen::all, columns) * *x - Eigen::VectorXd::Ones(a.rows())).squaredNorm();
      if (!(error < better * least)) continue;
      least = error;
      best.setZero();
      best(columns) = *x;
    }
  return best;
}

}  // namespace

double worst_error(const Fit& fit) {
  double worst = 0;
  for (const FitPoint& p : fit.points) worst = std::max(worst, std::fabs(p.error));
  return worst;
}

Fit with_r2(Fit fit) {
  std::ranges::sort(fit.points, {}, &FitPoint::size);
  fit.r2 = r_squared(fit.points);
  return fit;
}

LineFit fit_line(std::vector<TimedSize> points) {
  std::ranges::sort(points, {}, &TimedSize::size);
  if (points.empty() || points.front().size == points.back().size)
    throw InputError("a fit of alpha + n beta needs times of at least two different sizes");
  const double scale = points.back().size;  // sizes of 10^9 beside 1 would cost digits
  Eigen::MatrixX2d a(static_cast<Eigen::Index>(points.size()), 2);
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!(points[i].time > Seconds(0)) || points[i].size < 0)
      throw InputError("a fit of alpha + n beta needs sizes from 0 on and positive times");
    a.row(static_cast<Eigen::Index>(i)) << 1 / points[i].time.value(), points[i].size / scale / points[i].time.value();
  }
  const Eigen::Vector2d best = solve(a);
  LineFit fit{Seconds(best[0]), Seconds(best[1] / scale), {}};
  for (const TimedSize& p : points)
    fit.quality.points.push_back({p.size, p.time, (fit.alpha + p.size * fit.beta) / p.time - 1});
  fit.quality = with_r2(std::move(fit.quality));
  return fit;
}

TermsFit fit_terms(const std::vector<TimedTerms>& points) {
  if (points.empty() || points.front().terms.empty()) throw InputError("a fit of terms needs times and terms");
  const std::size_t terms = points.front().terms.size();
  Eigen::MatrixXd a(static_cast<Eigen::Index>(points.size()), static_cast<Eigen::Index>(terms));
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points[i].terms.size() != terms || !(points[i].time > Seconds(0)))
      throw InputError("a fit of terms needs as many terms of each point, and positive times");
    for (std::size_t j = 0; j < terms; ++j)
      a(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(j)) = points[i].terms[j] / points[i].time.value();
  }
  Eigen::VectorXd scale = a.colwise().maxCoeff();  // terms of 10^9 beside 1 would cost digits
  scale = (scale.array() > 0).select(scale, 1);
  const std::size_t most = std::clamp<std::size_t>(points.size() / 2, 1, terms);
  const Eigen::VectorXd x = solve_nonnegative(a * scale.cwiseInverse().asDiagonal(), most).cwiseQuotient(scale);
  TermsFit fit;
  for (const double each : x) fit.coefficients.emplace_back(each);
  for (const double ratio : Eigen::VectorXd(a * x)) fit.errors.push_back(ratio - 1);
  return fit;
}

}  // namespace dovetail

#include "models/base/fit.hpp"

#include <Eigen/QR>
#include <algorithm>
#include <cmath>

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

}  // namespace

double worst_error(const Fit& fit) {
  double worst = 0;
  for (const FitPoint& p : fit.points) worst = std::max(worst, std::fabs(p.error));
  return worst;
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
  fit.quality.r2 = r_squared(fit.quality.points);
  return fit;
}

}  // namespace dovetail

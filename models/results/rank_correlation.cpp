// SPDX-License-Identifier: Apache-2.0
#include "models/results/rank_correlation.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

#include "models/base/errors.hpp"

namespace dovetail {
namespace {

std::vector<double> ranks(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t last = first;
    while (last < order.size() && values[order[last]] == values[order[first]]) ++last;
    for (std::size_t i = first; i < last; ++i) ranks[order[i]] = static_cast<double>(first + last - 1) / 2;
    first = last;
  }
  return ranks;
}

}  // namespace

double rank_correlation(std::span<const double> a, std::span<const double> b) {
  check(a.size() == b.size() && !a.empty(), "ranks of lists of different length");
  const std::vector<double> rank_a = ranks(a), rank_b = ranks(b);
  const double middle = (static_cast<double>(a.size()) - 1) / 2;  // ranks count from 0
  double covariance = 0, variance_a = 0, variance_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    covariance += (rank_a[i] - middle) * (rank_b[i] - middle);
    variance_a += (rank_a[i] - middle) * (rank_a[i] - middle);
    variance_b += (rank_b[i] - middle) * (rank_b[i] - middle);
  }
  return covariance / std::sqrt(variance_a * variance_b);
}

}  // namespace dovetail

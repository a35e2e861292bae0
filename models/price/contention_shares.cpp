// SPDX-License-Identifier: Apache-2.0
#include "models/price/contention_shares.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "models/base/errors.hpp"

namespace dovetail {
namespace {

constexpr int largest_sum = 20;
constexpr double raised_within = 1e-9;  // speeds that were raised to add up to 1 do so nearly

// The demand of `flows` out of `sum`, which gives a kind this speed, or more where its share alone is more.
ContentionShare share_of(const KeptSpeed& kept, int flows, int sum) {
  const double share = static_cast<double>(flows) / sum;
  return {kept.kind, flows, share / std::max(kept.speed, share)};
}

std::vector<ContentionShare> of_two(const KeptSpeed& a, const KeptSpeed& b) {
  std::vector<ContentionShare> nearest;
  double least = 2;  // excess over the speeds
  for (int sum = 2; sum <= largest_sum; ++sum)
    for (int flows = 1; flows < sum; ++flows) {
      const double of_a = static_cast<double>(flows) / sum, of_b = static_cast<double>(sum - flows) / sum;
      const double excess = std::max(of_a - a.speed, 0.) + std::max(of_b - b.speed, 0.);
      if (excess >= least) continue;
      least = excess;
      nearest = {share_of(a, flows, sum), share_of(b, sum - flows, sum)};
      if (excess == 0) return nearest;
    }
  return nearest;
}

std::vector<ContentionShare> of_three(const std::vector<KeptSpeed>& kept, double speeds) {
  std::vector<ContentionShare> nearest;
  double least = 1;  // of the largest distance of a share from its part of the speeds
  for (int sum = 3; sum <= largest_sum; ++sum) {
    const auto flows_of = [&](std::size_t i) {
      return std::max(1, static_cast<int>(std::lround(sum * kept[i].speed / speeds)));
    };
    const int a = flows_of(0), b = flows_of(1), c = sum - a - b;
    if (c < 1) continue;
    double farthest = 0;
    for (const auto& [i, flows] : {std::pair{0, a}, {1, b}, {2, c}})
      farthest = std::max(farthest, std::abs(static_cast<double>(flows) / sum - kept[i].speed / speeds));
    if (farthest >= least) continue;
    least = farthest;
    nearest = {share_of(kept[0], a, sum), share_of(kept[1], b, sum), share_of(kept[2], c, sum)};
  }
  return nearest;
}

}  // namespace

std::vector<ContentionShare> contention_shares(const Interference& entry) {
  std::vector<KeptSpeed> kept;
  for_each_kept(entry, [&](const KeptSpeed& each) { kept.push_back(each); });
  std::vector<double> speeds;
  std::ranges::transform(kept, std::back_inserter(speeds), &KeptSpeed::speed);
  const double sum = std::accumulate(speeds.begin(), speeds.end(), 0.);
  if (sum < 1 - raised_within)
    throw InputError(
        fmt::format("interference of {}: speeds {} add up to less than 1", name_of(entry), fmt::join(speeds, " and ")));
  return entry.c ? of_three(kept, sum) : of_two(kept[0], kept[1]);
}

}  // namespace dovetail

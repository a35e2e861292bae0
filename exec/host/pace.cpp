// SPDX-License-Identifier: Apache-2.0
#include "exec/host/pace.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "exec/host/gemm.hpp"
#include "exec/run/measure.hpp"

namespace dovetail::exec {
namespace {

constexpr std::int64_t width = 384;  // three matrices of .6 MB stay in the caches of a core
constexpr int products = 5;
constexpr std::size_t first_readings = 50, most_readings = 200;

}  // namespace

ReferenceProduct::ReferenceProduct() : a_(width * width, 1), b_(width * width, 1), c_(width * width) {}

Seconds ReferenceProduct::operator()() {
  std::vector<Seconds> times;
  for (int i = 0; i < products; ++i) {
    const Seconds start = steady_time();
    multiply<float>(Matrix<const float>(a_.data(), width, width), Matrix<const float>(b_.data(), width, width),
                    Matrix<float>(c_.data(), width, width));
    times.push_back(steady_time() - start);
  }
  return median(std::move(times));
}

Pace::Pace(Reference reference) : reference_(std::move(reference)) {
  while (readings_.size() < first_readings) readings_.push_back(reference_());
}

double Pace::slowdown() {
  const Seconds now = reference_();
  readings_.push_back(now);
  if (readings_.size() > most_readings) readings_.pop_front();
  std::vector<Seconds> sorted(readings_.begin(), readings_.end());
  const auto quartile = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 4);
  std::ranges::nth_element(sorted, quartile);
  return now / *quartile;
}

}  // namespace dovetail::exec

// SPDX-License-Identifier: Apache-2.0
#include "models/price/kernel_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/base/errors.hpp"

namespace dovetail {
namespace {

constexpr std::size_t enough_to_fit = 1000;                  // shapes; more do not change 8 parameters
constexpr std::string_view tiles_at_once = "tiles_at_once";  // a whole number, which is tried
// Times the launch that a fit begins with: if every kernel takes longer, times do not tell a launch from the rest.
constexpr double short_kernel = 40;
constexpr std::array<double, 12> usual_waves{72, 78, 82, 84, 104, 108, 114, 120, 128, 132, 144, 148};

class LawFit {
 public:
  LawFit(const KernelLaw& law, Bytes element, std::span<const MeasuredKernel> points)
      : law_(law), element_(element), points_(points.first(std::min(points.size(), enough_to_fit))) {
    const Seconds shortest = std::ranges::min(points_, {}, &MeasuredKernel::time).time;
    shows_launch_ = shortest < Seconds(short_kernel * 1e-6 * law_.parameters[law_.launch].start);
  }

  std::vector<double> run() {
    std::vector<double> best;
    for (const LawParameter& p : law_.parameters) best.push_back(p.start);
    double least = descend(best, 4);
    for (std::size_t i = 0; i < best.size(); ++i) {
      if (law_.parameters[i].name != tiles_at_once) continue;
      for (const double count : usual_waves) {
        std::vector<double> other = best;
        other[i] = count;
        if (const double error = descend(other, 2); error < least) {
          least = error;
          best = other;
        }
      }
    }
    descend(best, 12);
    return best;
  }

 private:
  double error(const std::vector<double>& parameters) const {
    double sum = 0;
    for (const MeasuredKernel& point : points_)
      sum += std::abs(std::log(law_.seconds(point.shape, parameters, element_) / point.time));
    return sum / static_cast<double>(points_.size());
  }

  // One parameter after the other is made larger or smaller, by less and less.
  double descend(std::vector<double>& parameters, int rounds) const {
    double least = error(parameters);
    double step = 1.3;
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < parameters.size(); ++i)
        for (const double factor : {step, 1 / step}) improve(parameters, i, factor, least);
      step = 1 + (step - 1) * .7;
    }
    return least;
  }

  void improve(std::vector<double>& parameters, std::size_t i, double factor, double& least) const {
    const LawParameter& p = law_.parameters[i];
    if (p.name == tiles_at_once || (i == law_.launch && !shows_launch_)) return;
    while (true) {
      const double before = parameters[i];
      parameters[i] = std::clamp(before * factor, p.least, p.most);
      const double now = error(parameters);
      if (now < least) {
        least = now;
        continue;
      }
      parameters[i] = before;
      return;
    }
  }

  const KernelLaw& law_;
  Bytes element_;
  std::span<const MeasuredKernel> points_;
  bool shows_launch_ = true;  // else it stays as a fit begins
};

using Kept = std::vector<MeasuredKernel>::iterator;  // the end of those that are kept

Kept keep_drawn(std::vector<MeasuredKernel>& measured, std::size_t keep) {
  std::ranges::sort(measured, {}, [](const MeasuredKernel& m) { return std::pair(mixed(m.shape), m.shape); });
  return measured.begin() + static_cast<std::ptrdiff_t>(keep);
}

// As evenly as the number allows.
Kept keep_spread(std::vector<MeasuredKernel>& measured, std::size_t keep) {
  std::ranges::sort(measured, {}, &MeasuredKernel::shape);
  std::size_t i = 0;
  return std::stable_partition(measured.begin(), measured.end(), [&, all = measured.size()](const MeasuredKernel&) {
    ++i;
    return i * keep / all > (i - 1) * keep / all;
  });
}

// A group that sent more bytes in less time could have sent fewer in that time: what else they took was disturbed.
void take_least_of_larger(std::vector<MeasuredKernel>& ascending) {
  for (std::size_t i = ascending.size() - 1; i > 0; --i) {
    MeasuredKernel& smaller = ascending[i - 1];
    if (smaller.shape.size[0] == ascending[i].shape.size[0]) smaller.time = std::min(smaller.time, ascending[i].time);
  }
}

}  // namespace

KernelTable fit_table(DType dtype, std::vector<MeasuredKernel> measured, std::size_t keep) {
  if (measured.size() < 2) throw InputError(fmt::format("{} measured shapes, expected at least 2", measured.size()));
  const KernelKind kind = measured.front().shape.kind;
  keep = std::clamp<std::size_t>(keep, 1, measured.size());
  const Kept kept = is_collective(kind) ? keep_spread(measured, keep) : keep_drawn(measured, keep);
  std::vector<MeasuredKernel> points(measured.begin(), kept);
  if (is_collective(kind)) take_least_of_larger(points);
  std::vector<double> law = LawFit(law_of(kind), size_of(dtype), points).run();
  std::ranges::sort(points, {}, &MeasuredKernel::shape);
  KernelTable table(kind, dtype, std::move(law), std::move(points));
  table.error = error_on(table, {kept, measured.end()});
  return table;
}

HeldBackError error_on(const KernelTable& table, const std::vector<MeasuredKernel>& held_back) {
  HeldBackError result;
  result.rows = held_back.size();
  if (held_back.empty()) return result;
  std::vector<double> errors;
  for (const auto& [shape, time] : held_back) {
    const double ratio = table.seconds(shape) / time, rows = static_cast<double>(held_back.size());
    errors.push_back(std::abs(ratio - 1));
    result.mean += errors.back() / rows;
    if (std::abs(std::log(ratio)) <= std::log(table.within(shape))) result.covered += 1 / rows;
    if (errors.back() < result.worst) continue;
    result.worst = errors.back();
    result.worst_shape = shape;
  }
  const auto at = errors.begin() + static_cast<std::ptrdiff_t>(.9 * static_cast<double>(errors.size() - 1));
  std::ranges::nth_element(errors, at);
  result.ninetieth = *at;
  return result;
}

}  // namespace dovetail

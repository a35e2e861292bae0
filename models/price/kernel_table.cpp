// SPDX-License-Identifier: Apache-2.0
#include "models/price/kernel_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "models/base/draws.hpp"
#include "models/base/errors.hpp"

namespace dovetail {
namespace {

// By choice, as good as 4 to 16 on the held-back rows of four GPUs.
constexpr std::size_t neighbours = 8;
constexpr double nearness = .02;  // a distance within which neighbours count alike
// Neighbours that agree are no proof: so much is added to their scatter. By choice, as good as .01 to .04.
constexpr double least_scatter = .02;
constexpr std::size_t enough_to_judge = 500;  // shapes; by more, the share of one in ten changes by less than .02

double distance(const KernelFeatures& a, const KernelFeatures& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  return sum;
}

// Null: not a rate of the device.
const double* growth_of(const LawParameter& parameter, const RateChange& change) {
  switch (parameter.grows_with) {
    case GrowsWith::Peak:
      return &change.peak;
    case GrowsWith::MemoryBandwidth:
      return &change.memory_bandwidth;
    case GrowsWith::NodeBandwidth:
      return &change.node_bandwidth;
    case GrowsWith::Nothing:
      break;
  }
  return nullptr;
}

}  // namespace

struct KernelTable::Measured {
  std::vector<MeasuredKernel> points;
  std::vector<KernelFeatures> features;  // by point
  std::vector<double> log_ratios;        // of measured time and law, by point

  struct Near {
    double log_ratio = 0, scatter = 0;
  };
  static constexpr std::size_t none = SIZE_MAX;
  // The weighted mean of the nearest points' ratios, and how far they scatter around it. `without`: a point that does
  // not count.
  Near near(const KernelFeatures& here, std::size_t without = none) const;

  // The multiple of (least_scatter + scatter) within which nine of ten points lie that are predicted by the others.
  double multiple() const;

 private:
  mutable std::once_flag judged_;
  mutable double multiple_ = 0;
};

struct KernelTable::Memo {
  std::shared_mutex mutex;
  std::map<KernelShape, Prediction> predictions;
};

KernelTable::Measured::Near KernelTable::Measured::near(const KernelFeatures& here, std::size_t without) const {
  std::vector<std::pair<double, double>> nearest;  // distance and ratio
  nearest.reserve(features.size());
  for (std::size_t i = 0; i < features.size(); ++i)
    if (i != without) nearest.emplace_back(distance(here, features[i]), log_ratios[i]);
  const std::size_t count = std::min(neighbours, nearest.size());
  if (count == 0) return {};
  std::ranges::partial_sort(nearest, nearest.begin() + static_cast<std::ptrdiff_t>(count));
  double sum = 0, squares = 0, weights = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double weight = std::pow(nearest[i].first + nearness, -2);
    sum += weight * nearest[i].second;
    squares += weight * nearest[i].second * nearest[i].second;
    weights += weight;
  }
  const double mean = sum / weights;
  return {mean, std::sqrt(std::max(0.0, squares / weights - mean * mean))};
}

double KernelTable::Measured::multiple() const {
  std::call_once(judged_, [this] {
    const std::size_t step = (points.size() + enough_to_judge - 1) / enough_to_judge;
    std::vector<double> multiples;
    for (std::size_t i = 0; i < points.size(); i += step) {
      const Near others = near(features[i], i);
      multiples.push_back(std::abs(log_ratios[i] - others.log_ratio) / (least_scatter + others.scatter));
    }
    // As if the next shape were one of these: then it is below this one with a probability of at least .9.
    const auto count = static_cast<double>(multiples.size());
    const auto at = multiples.begin() + static_cast<std::ptrdiff_t>(std::min(count, std::ceil(.9 * (count + 1))) - 1);
    std::ranges::nth_element(multiples, at);
    multiple_ = *at;
  });
  return multiple_;
}

KernelTable::KernelTable(KernelKind kind, DType dtype, std::vector<double> law, std::vector<MeasuredKernel> points)
    : kind_(kind), dtype_(dtype), law_(std::move(law)), memo_(std::make_shared<Memo>()) {
  const std::string_view name = name_in(kernel_kind_names, kind_);
  if (law_.size() != law_of(kind_).parameters.size())
    throw InputError(fmt::format("{} kernels: {} parameters of the law, expected {}", name, law_.size(),
                                 law_of(kind_).parameters.size()));
  if (points.empty()) throw InputError(fmt::format("{} kernels: no measured shape, expected some", name));
  const auto measured = std::make_shared<Measured>();
  for (const MeasuredKernel& point : points) {
    check(point.shape.kind == kind_, "a table holds kernels of one kind");
    measured->features.push_back(law_of(kind_).features(point.shape));
    measured->log_ratios.push_back(std::log(point.time / by_law(point.shape)));
    fastest_ = std::max(fastest_, amount(point.shape) / point.time.value());
  }
  measured->points = std::move(points);
  measured_ = measured;
}

const std::vector<MeasuredKernel>& KernelTable::points() const {
  return measured_->points;
}

KernelTable KernelTable::in(DType dtype) const {
  KernelTable other = *this;
  other.dtype_ = dtype;
  return other;
}

Seconds KernelTable::by_law(const KernelShape& shape) const {
  return law_of(kind_).seconds(shape, law_, size_of(dtype_));
}

Seconds KernelTable::launch() const {
  return Seconds(law_[law_of(kind_).launch] * 1e-6);
}

void KernelTable::scale(const RateChange& change) {
  const auto parameters = law_of(kind_).parameters;
  double most = 0;  // what bounds a kernel is at most so much faster
  for (std::size_t i = 0; i < law_.size(); ++i) {
    const double* const by = growth_of(parameters[i], change);
    if (by == nullptr) continue;
    law_[i] *= *by;
    most = std::max(most, *by);
  }
  fastest_ *= most;
  memo_ = std::make_shared<Memo>();
}

KernelTable::Prediction KernelTable::predict(const KernelShape& shape) const {
  const Measured::Near near = measured_->near(law_of(kind_).features(shape));
  return {std::max(by_law(shape) * std::exp(near.log_ratio), Seconds(amount(shape) / fastest_)), near.scatter};
}

KernelTable::Prediction KernelTable::remembered(const KernelShape& shape) const {
  check(shape.kind == kind_, "a table knows kernels of one kind");
  {
    const std::shared_lock lock(memo_->mutex);
    if (const auto found = memo_->predictions.find(shape); found != memo_->predictions.end()) return found->second;
  }
  const Prediction prediction = predict(shape);
  const std::unique_lock lock(memo_->mutex);
  return memo_->predictions.emplace(shape, prediction).first->second;
}

Seconds KernelTable::seconds(const KernelShape& shape) const {
  const Prediction prediction = remembered(shape);
  const auto& [factor, shapes, seed, machines] = deviation_;
  if (shapes == 0 && seed == 0) return factor * prediction.time;
  double off = shapes * log_within(prediction);
  if (seed != 0)
    off += normal_draw(seed ^ mixed(shape)) / nine_of_ten * std::hypot(log_within(prediction), std::log(machines));
  return factor * std::exp(off) * prediction.time;
}

Seconds KernelTable::seconds(const KernelShape& shape, const SharedFactor& shared) const {
  const Seconds apart = seconds(shape);
  const double share = seconds_with_shared(shape, law_, size_of(dtype_), shared) / by_law(shape);
  return std::min(apart, std::max(apart * share, Seconds(amount(shape) / fastest_)));
}

double KernelTable::log_within(const Prediction& prediction) const {
  return measured_->multiple() * (least_scatter + prediction.scatter);
}

double KernelTable::within(const KernelShape& shape) const {
  return std::exp(log_within(remembered(shape)));
}

const KernelTable* find_table(const std::vector<KernelTable>& tables, KernelKind kind, DType dtype) {
  const KernelTable* like = nullptr;
  for (const KernelTable& table : tables) {
    if (table.kind() != kind) continue;
    if (table.dtype() == dtype || is_collective(kind)) return &table;
    if (is_half(table.dtype()) && is_half(dtype)) like = &table;
  }
  return like;
}

const KernelTable* find_table(const std::vector<KernelTable>& tables, KernelKind kind) {
  const auto found = std::ranges::find(tables, kind, &KernelTable::kind);
  return found == tables.end() ? nullptr : &*found;
}

}  // namespace dovetail

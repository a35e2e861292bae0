#include "models/price/kernel_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "models/base/errors.hpp"

namespace dovetail {
namespace {

// By choice, as good as 4 to 16 on the held-back rows of four GPUs.
constexpr std::size_t neighbours = 8;
constexpr double nearness = .02;  // a distance within which neighbours count alike

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
};

struct KernelTable::Memo {
  std::shared_mutex mutex;
  std::map<KernelShape, Seconds> seconds;
};

KernelTable::KernelTable(KernelKind kind, DType dtype, std::vector<double> law, std::vector<MeasuredKernel> points)
    : kind_(kind), dtype_(dtype), law_(std::move(law)), memo_(std::make_shared<Memo>()) {
  const std::string_view name = name_in(kernel_kind_names, kind_);
  if (law_.size() != law_of(kind_).parameters.size())
    throw InputError(fmt::format("{} kernels: {} parameters of the law, expected {}", name, law_.size(),
                                 law_of(kind_).parameters.size()));
  if (points.empty()) throw InputError(fmt::format("{} kernels: no measured shape, expected some", name));
  Measured measured;
  for (const MeasuredKernel& point : points) {
    check(point.shape.kind == kind_, "a table holds kernels of one kind");
    measured.features.push_back(law_of(kind_).features(point.shape));
    measured.log_ratios.push_back(std::log(point.time / by_law(point.shape)));
    fastest_ = std::max(fastest_, amount(point.shape) / point.time.value());
  }
  measured.points = std::move(points);
  measured_ = std::make_shared<const Measured>(std::move(measured));
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

Seconds KernelTable::predicted(const KernelShape& shape) const {
  const KernelFeatures here = law_of(kind_).features(shape);
  std::vector<std::pair<double, double>> nearest;  // distance and ratio
  nearest.reserve(measured_->features.size());
  for (std::size_t i = 0; i < measured_->features.size(); ++i)
    nearest.emplace_back(distance(here, measured_->features[i]), measured_->log_ratios[i]);
  const std::size_t count = std::min(neighbours, nearest.size());
  std::ranges::partial_sort(nearest, nearest.begin() + static_cast<std::ptrdiff_t>(count));
  double sum = 0, weights = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double weight = std::pow(nearest[i].first + nearness, -2);
    sum += weight * nearest[i].second;
    weights += weight;
  }
  return std::max(by_law(shape) * std::exp(sum / weights), Seconds(amount(shape) / fastest_));
}

Seconds KernelTable::seconds(const KernelShape& shape) const {
  check(shape.kind == kind_, "a table knows kernels of one kind");
  {
    const std::shared_lock lock(memo_->mutex);
    if (const auto found = memo_->seconds.find(shape); found != memo_->seconds.end()) return found->second;
  }
  const Seconds time = predicted(shape);
  const std::unique_lock lock(memo_->mutex);
  return memo_->seconds.emplace(shape, time).first->second;
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

}  // namespace dovetail

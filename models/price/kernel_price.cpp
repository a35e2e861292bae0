// SPDX-License-Identifier: Apache-2.0
#include "models/price/kernel_price.hpp"

#include <algorithm>
#include <cmath>

namespace dovetail {
namespace {

constexpr double gate_and_up = 2;  // products of a gated expert before its activation

// Attention keeps its shape: it sees all rows.
KernelShape with_rows(KernelShape shape, double share) {
  if (share == 1 || shape.kind == KernelKind::Attention || shape.kind == KernelKind::AttentionBackward) return shape;
  shape.size[0] = std::max<std::int64_t>(1, std::llround(static_cast<double>(shape.size[0]) * share));
  if (shape.kind == KernelKind::Experts || shape.kind == KernelKind::ExpertGradients) shape.size[4] = shape.size[0];
  return shape;
}

}  // namespace

KernelPrices::Format::Format(const Calibration& calibration, DType of, bool lasts)
    : dtype(of), gemm(gemm_cost(calibration, of)) {
  for (const SustainedRate& rate : calibration.sustained)
    if ((lasts || rate.always) && (rate.dtype == of || (is_half(rate.dtype) && is_half(of)))) sustained = &rate;
  for (const auto& [name, kind] : computing_kernels)
    tables[static_cast<std::size_t>(kind)] = find_table(calibration.tables, kind, of);
}

KernelPrices::KernelPrices(const Calibration& calibration, DType dtype, std::optional<DType> products, bool sustained,
                           Bytes l2_cache)
    : calibration_(calibration), element_(size_of(dtype)), l2_cache_(l2_cache), usual_(calibration, dtype, sustained) {
  find_gemm(calibration, dtype);
  if (!products || *products == dtype) return;
  require_products(calibration, *products);
  products_.emplace(calibration, *products, sustained);
}

const KernelPrices::Format& KernelPrices::format_of(const KernelUse& kernel) const {
  if (!kernel.dtype) return usual_;
  check(products_ && products_->dtype == *kernel.dtype, "a kernel in a format that nobody asked the prices of");
  return *products_;
}

bool KernelPrices::tells_kernels_apart() const {
  return products_ || std::ranges::any_of(usual_.tables, [](const KernelTable* table) { return table != nullptr; });
}

KernelPrices::Shared KernelPrices::shared_factor(const KernelUse& kernel) const {
  if (kernel.readers <= 1 || !calibration_.l2_cache) return {};
  if (right_factor(kernel.shape) * size_of(format_of(kernel).dtype) > l2_cache_) return {};
  return SharedFactor{kernel.readers, calibration_.l2_cache->bandwidth};
}

Bytes KernelPrices::read_from_cache(std::span<const KernelUse> kernels) const {
  Bytes bytes;
  for (const KernelUse& kernel : kernels)
    if (shared_factor(kernel))
      bytes += kernel.times * (1 - 1 / static_cast<double>(kernel.readers)) * right_factors(kernel.shape) *
               size_of(format_of(kernel).dtype);
  return bytes;
}

ResourceTime KernelPrices::of(std::span<const KernelUse> kernels, double row_share) const {
  ResourceTime sum;
  for (const KernelUse& kernel : kernels) {
    const ResourceTime time = of(kernel, row_share);
    sum.fixed += time.fixed;
    sum.busy += time.busy;
  }
  return sum;
}

namespace {

// The kernel that does as much, by whose table one without its own is priced.
KernelKind like(KernelKind kind) {
  switch (kind) {
    case KernelKind::WeightGradient:
      return KernelKind::Gemm;
    case KernelKind::AttentionBackward:
      return KernelKind::Attention;
    case KernelKind::ExpertGradients:
      return KernelKind::Experts;
    default:
      return kind;
  }
}

ResourceTime times(double factor, ResourceTime time) {
  return {factor * time.fixed, factor * time.busy};
}

ResourceTime of_table(const KernelTable& table, Seconds time) {
  const Seconds launch = std::min(time, table.launch());
  return {launch, time - launch};
}

Seconds seconds_of(const KernelTable& table, const KernelShape& shape, const std::optional<SharedFactor>& shared) {
  return shared ? table.seconds(shape, *shared) : table.seconds(shape);
}

// A table of short measurements, slowed to what the device keeps up.
ResourceTime sustained(const SustainedRate* rate, const KernelTable& table, Flops done, ResourceTime time) {
  if (rate == nullptr || table.sustained || time.busy <= Seconds(0)) return time;
  return {time.fixed, time.busy * rate->slowing(done / time.busy)};
}

}  // namespace

double KernelPrices::training_times(KernelKind kind) const {
  const auto found = std::ranges::find(calibration_.training, kind, &TrainingKernel::kernel);
  return found == calibration_.training.end() ? 1 : found->times;
}

// One that was measured by itself takes that. Others take so many times what the kernel does that does as much; of
// backward attention that is as many flops at its rate.
std::optional<ResourceTime> KernelPrices::by_tables(const Format& format, const KernelShape& shape,
                                                    const Shared& shared) const {
  const KernelKind kind = shape.kind, other = like(kind);
  if (other == KernelKind::Experts) return by_experts(format, shape, shared);
  if (const KernelTable* own = format.table(kind))
    return sustained(format.sustained, *own, flops(shape), of_table(*own, seconds_of(*own, shape, shared)));
  const KernelTable* const table = other == kind ? nullptr : format.table(other);
  if (table == nullptr) return {};
  const KernelShape as_other = as_kind(shape, other);
  const ResourceTime time = of_table(*table, seconds_of(*table, as_other, shared));
  const double work = training_times(kind) * (flops(shape) / flops(as_other));
  return times(work, sustained(format.sustained, *table, flops(as_other), time));
}

std::optional<ResourceTime> KernelPrices::by_experts(const Format& format, const KernelShape& shape,
                                                     const Shared& shared) const {
  const bool gradients = shape.kind == KernelKind::ExpertGradients;
  const KernelShape forward = as_kind(shape, KernelKind::Experts);
  const KernelTable* const own = format.table(KernelKind::Experts);
  const KernelTable* const products = format.table(KernelKind::Gemm);
  const KernelTable* const weights = gradients ? format.table(KernelKind::WeightGradient) : nullptr;
  if (weights != nullptr)
    return sustained(format.sustained, *weights, flops(shape),
                     of_table(*weights, grouped_gradients(*weights, shape, shared)));
  const bool grouped = products != nullptr && (own == nullptr || own->or_grouped);
  if (!grouped && own == nullptr) return {};
  Seconds each = grouped ? grouped_experts(*products, forward, shared) : seconds_of(*own, forward, shared);
  if (grouped && own != nullptr) each = std::min(each, seconds_of(*own, forward, shared));
  const KernelTable& table = grouped ? *products : *own;
  return times(training_times(shape.kind), sustained(format.sustained, table, flops(forward), of_table(table, each)));
}

ResourceTime KernelPrices::of(const KernelUse& kernel, double row_share) const {
  const Format& format = format_of(kernel);
  const KernelShape shape = with_rows(kernel.shape, row_share);
  if (const std::optional<ResourceTime> time = by_tables(format, shape, shared_factor(kernel)))
    return times(kernel.times, *time);
  return time_of(*format.gemm, training_times(shape.kind) * kernel.times * flops(shape), kernel.launches);
}

namespace {

struct ExpertSides {
  std::int64_t rows, experts, hidden, inter;  // rows of each
};
ExpertSides sides_of(const KernelShape& shape) {
  const auto [rows, experts, hidden, inter, seen] = shape.size;
  return {std::max<std::int64_t>(1, rows / std::max<std::int64_t>(1, experts)), experts, hidden, inter};
}

}  // namespace

Seconds KernelPrices::grouped_gradients(const KernelTable& weights, const KernelShape& shape, const Shared& shared) {
  const auto [rows, experts, hidden, inter] = sides_of(shape);
  const auto product = [&](std::int64_t a, std::int64_t b) {
    return seconds_of(weights, as_kind(gemm_shape(a, b, rows, experts), KernelKind::WeightGradient), shared);
  };
  return gate_and_up * product(hidden, inter) + product(inter, hidden);
}

Seconds KernelPrices::grouped_experts(const KernelTable& products, const KernelShape& shape,
                                      const Shared& shared) const {
  const auto [rows, experts, hidden, inter] = sides_of(shape);
  // The activation of a gated expert reads two numbers and writes one.
  const Bytes activation = 3 * static_cast<double>(rows * experts * inter) * element_;
  return gate_and_up * seconds_of(products, gemm_shape(rows, inter, hidden, experts), shared) +
         seconds_of(products, gemm_shape(rows, hidden, inter, experts), shared) + activation * calibration_.memory.beta;
}

namespace {

// One line below what the cost says of all sizes.
template <class Cost>
void put_least_line(Cost& cost) {
  cost.alpha = std::min(cost.alpha, cost.outside.alpha.value_or(cost.alpha));
  cost.beta = std::min(cost.beta, cost.outside.beta.value_or(cost.beta));
  cost.outside = {};
}

void put_least_kernel(std::vector<GemmCost>& costs, DType dtype, const KernelTable& table) {
  const SecondsPerFlop beta(1 / table.fastest());
  const auto known = std::ranges::find(costs, dtype, &GemmCost::dtype);
  GemmCost& least = known != costs.end() ? *known : costs.emplace_back(GemmCost{dtype, {}, beta, {}});
  least.alpha = {};
  least.beta = std::min(least.beta, beta);
}

// Two ranks send the fewest bytes to others.
void put_least_collective(std::vector<CollectiveCost>& costs, const KernelTable& table) {
  constexpr std::int64_t many = 1 << 30;
  const Collective collective = collective_of(table.kind());
  std::erase_if(costs,
                [&](const CollectiveCost& c) { return c.collective == collective && c.link == LinkKind::Intra; });
  CollectiveCost& least = costs.emplace_back();
  least.collective = collective;
  least.link = LinkKind::Intra;
  least.beta = SecondsPerByte(amount(collective_shape(table.kind(), 2, many)) / many / table.fastest());
}

}  // namespace

Calibration least_costs(const Calibration& calibration, DType dtype, std::optional<DType> products) {
  Calibration least = calibration;
  for (CollectiveCost& cost : least.collectives) put_least_line(cost);
  for (GemmCost& cost : least.gemms) put_least_line(cost);
  for (MemoryCost* cost :
       {&least.memory, least.strided_copy ? &*least.strided_copy : nullptr, least.copy ? &*least.copy : nullptr})
    if (cost != nullptr) put_least_line(*cost);
  least.tables.clear();
  for (const DType format : {dtype, products.value_or(dtype)})
    for (const auto& [name, kind] : computing_kernels)
      if (const KernelTable* table = find_table(calibration.tables, kind, format))
        put_least_kernel(least.gemms, format, *table);
  for (const auto& [name, kind] : collective_kernels)
    if (const KernelTable* table = find_table(calibration.tables, kind, dtype))
      put_least_collective(least.collectives, *table);
  return least;
}

}  // namespace dovetail

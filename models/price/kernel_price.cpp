// SPDX-License-Identifier: Apache-2.0
#include "models/price/kernel_price.hpp"

#include <algorithm>
#include <cmath>

namespace dovetail {
namespace {

constexpr double gate_and_up = 2;  // products of a gated expert before its activation

// Attention keeps its shape: it sees all rows.
KernelShape with_rows(KernelShape shape, double share) {
  if (share == 1 || shape.kind == KernelKind::Attention) return shape;
  shape.size[0] = std::max<std::int64_t>(1, std::llround(static_cast<double>(shape.size[0]) * share));
  if (shape.kind == KernelKind::Experts) shape.size[4] = shape.size[0];
  return shape;
}

}  // namespace

KernelPrices::Format::Format(const Calibration& calibration, DType of) : dtype(of), gemm(gemm_cost(calibration, of)) {
  for (const auto& [name, kind] : computing_kernels)
    tables[static_cast<std::size_t>(kind)] = find_table(calibration.tables, kind, of);
}

KernelPrices::KernelPrices(const Calibration& calibration, DType dtype, std::optional<DType> products)
    : calibration_(calibration), element_(size_of(dtype)), usual_(calibration, dtype) {
  find_gemm(calibration, dtype);
  if (!products || *products == dtype) return;
  require_products(calibration, *products);
  products_.emplace(calibration, *products);
}

const KernelPrices::Format& KernelPrices::format_of(const KernelUse& kernel) const {
  if (!kernel.dtype) return usual_;
  check(products_ && products_->dtype == *kernel.dtype, "a kernel in a format that nobody asked the prices of");
  return *products_;
}

bool KernelPrices::tells_kernels_apart() const {
  return products_ || std::ranges::any_of(usual_.tables, [](const KernelTable* table) { return table != nullptr; });
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

ResourceTime KernelPrices::of(const KernelUse& kernel, double row_share) const {
  const Format& format = format_of(kernel);
  const KernelShape shape = with_rows(kernel.shape, row_share);
  const KernelTable* const own = format.table(shape.kind);
  const KernelTable* const products = format.table(KernelKind::Gemm);
  const bool grouped = shape.kind == KernelKind::Experts && products != nullptr && (own == nullptr || own->or_grouped);
  const KernelTable* const known = grouped ? products : own;
  if (known == nullptr) return time_of(*format.gemm, kernel.times * flops(shape), kernel.launches);
  Seconds each = grouped ? grouped_experts(format, shape) : own->seconds(shape);
  if (grouped && own != nullptr) each = std::min(each, own->seconds(shape));
  const Seconds time = kernel.times * each;
  const Seconds launch = std::min(time, kernel.times * known->launch());
  return {launch, time - launch};
}

Seconds KernelPrices::grouped_experts(const Format& format, const KernelShape& shape) const {
  const auto [rows, experts, hidden, inter, seen] = shape.size;
  const std::int64_t each = std::max<std::int64_t>(1, rows / std::max<std::int64_t>(1, experts));
  const KernelTable& products = *format.table(KernelKind::Gemm);
  // The activation of a gated expert reads two numbers and writes one.
  const Bytes activation = 3 * static_cast<double>(rows * inter) * element_;
  return gate_and_up * products.seconds(gemm_shape(each, inter, hidden, experts)) +
         products.seconds(gemm_shape(each, hidden, inter, experts)) + activation * calibration_.memory.beta;
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

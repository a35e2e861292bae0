// The time of an op's kernels: of those that a table knows, by their shapes; of the others, by their flops.
//
// Experts run in the faster of two ways, as a training library would: in the measured kernel, which may be one for
// inference, made for few rows; or as grouped products, by the table of products, with an activation that reads and
// writes device memory between them.
#pragma once
#include <optional>
#include <span>

#include "models/price/calibration.hpp"
#include "models/price/step_cost.hpp"

namespace dovetail {

class KernelPrices {
 public:
  // Throws InputError where the calibration has no GEMM cost for `dtype`. The calibration must live as long.
  KernelPrices(const Calibration& calibration, DType dtype);

  // `row_share`: of the rows of each shape, those that there are. The launches are fixed.
  ResourceTime of(std::span<const KernelUse> kernels, double row_share) const;

  bool knows_shapes() const;

 private:
  ResourceTime of(const KernelUse& kernel, double row_share) const;
  Seconds grouped_experts(const KernelShape& shape) const;  // by the table of products
  Seconds by_shape(const KernelShape& shape) const;
  const KernelTable* table(KernelKind kind) const { return tables_[static_cast<std::size_t>(kind)]; }

  const Calibration& calibration_;
  const GemmCost& gemm_;
  Bytes element_;
  std::array<const KernelTable*, kernel_kind_names.size()> tables_{};  // by KernelKind; null: none
};

// Costs by flops and bytes alone that no kernel and no collective of these costs undercuts, whatever its shape: for
// bounds of plans that cut them in unknown ways.
Calibration least_costs(const Calibration& calibration, DType dtype);

}  // namespace dovetail

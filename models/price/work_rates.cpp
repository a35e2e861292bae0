// SPDX-License-Identifier: Apache-2.0
#include "models/price/work_rates.hpp"

namespace dovetail {
namespace {

double elements_written(const KernelShape& shape) {
  const auto size = [&](std::size_t i) { return static_cast<double>(shape.size[i]); };
  switch (shape.kind) {
    case KernelKind::Gemm:
    case KernelKind::WeightGradient:
      return size(0) * size(1) * size(3);
    case KernelKind::Experts:
    case KernelKind::ExpertGradients:  // the rows of gate and of up, and those of down
      return size(0) * (2 * size(3) + size(2));
    default:
      return 0;
  }
}

}  // namespace

WorkAmounts amounts_of(const Schedule& schedule, const KernelWork& work, Bytes element) {
  WorkAmounts all;
  all.memory = work.memory_traffic + work.gemm_traffic;
  for (const KernelUse& kernel : schedule.kernels_of(work)) {
    if (kernel.shape.kind == KernelKind::Attention || kernel.shape.kind == KernelKind::AttentionBackward) {
      all.attention += kernel.times * flops(kernel.shape);
      continue;
    }
    all.products += kernel.times * work.row_share * flops(kernel.shape);
    all.outputs += kernel.times * work.row_share * elements_written(kernel.shape) * element;
  }
  return all;
}

Seconds seconds_of(const WorkAmounts& amounts, const WorkRates& rates) {
  return amounts.products * rates.products + amounts.attention * rates.attention + amounts.outputs * rates.outputs +
         amounts.memory * rates.memory;
}

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
#include "models/price/calibration.hpp"

#include <fmt/format.h>

#include "models/base/errors.hpp"
#include "models/base/names.hpp"

namespace dovetail {
const MessageCost* find_message(const Calibration& calibration, LinkKind link, Protocol protocol) {
  for (const MessageCost& cost : calibration.messages)
    if (cost.link == link && cost.protocol == protocol) return &cost;
  return nullptr;
}

const GemmCost* gemm_cost(const Calibration& calibration, DType dtype) {
  for (const GemmCost& cost : calibration.gemms)
    if (cost.dtype == dtype) return &cost;
  return nullptr;
}

const GemmCost& find_gemm(const Calibration& calibration, DType dtype) {
  if (const GemmCost* cost = gemm_cost(calibration, dtype)) return *cost;
  std::string known;
  for (const GemmCost& cost : calibration.gemms)
    known += fmt::format("{}{}", known.empty() ? "" : ", ", name_in(dtype_names, cost.dtype));
  throw InputError(fmt::format("calibration {} has no GEMM cost for {}; it has {}", calibration.name,
                               name_in(dtype_names, dtype), known));
}

void require_products(const Calibration& calibration, DType dtype) {
  if (find_table(calibration.tables, KernelKind::Gemm, dtype) == nullptr) find_gemm(calibration, dtype);
}

const KernelCost* find_kernel(const Calibration& calibration, OpKind op, Phase phase) {
  for (const KernelCost& cost : calibration.kernels)
    if (cost.op == op && cost.phase == phase) return &cost;
  return nullptr;
}

const MemoryCost& find_copy(const Calibration& calibration) {
  if (calibration.copy) return *calibration.copy;
  throw InputError(
      fmt::format("calibration {} has no cost of copies to host memory, needed to offload", calibration.name));
}

}  // namespace dovetail

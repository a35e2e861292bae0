// SPDX-License-Identifier: Apache-2.0
// Number formats of tensors. Fp8 (e4m3) is a format of messages and of the inputs of matrix products: no tensor of a
// workload is kept in it.
#pragma once
#include <array>
#include <string_view>
#include <utility>

#include "models/base/units.hpp"

namespace dovetail {

enum class DType { Fp64, Fp32, Bf16, Fp16, Fp8 };

inline constexpr std::array<std::pair<std::string_view, DType>, 5> dtype_names{
    {{"fp64", DType::Fp64}, {"fp32", DType::Fp32}, {"bf16", DType::Bf16}, {"fp16", DType::Fp16}, {"fp8", DType::Fp8}}};

constexpr bool is_half(DType dtype) {
  return dtype == DType::Bf16 || dtype == DType::Fp16;
}

constexpr Bytes size_of(DType dtype) {
  switch (dtype) {
    case DType::Fp64:
      return Bytes(8);
    case DType::Fp32:
      return Bytes(4);
    case DType::Bf16:
    case DType::Fp16:
      return Bytes(2);
    case DType::Fp8:
      return Bytes(1);
  }
  return Bytes(0);
}

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
// Products of matrices as cuBLAS takes them: checked, and as long as tensor cores would take. They compute nothing.
#pragma once
#include <array>
#include <cstdint>

#include "tests/paper_gpu/streams.hpp"

namespace paper {

enum class Number { Bf16, Float, Double };

// Stored by columns, each `leading` numbers after the one before.
struct Operand {
  const void* data;
  Number number;
  std::int64_t leading;
  std::int64_t stride;  // numbers from one product of a batch to the next
  bool transposed = false;
};

struct ProductCall {
  std::int64_t m, n, k, batch;
  Operand a, b, c;      // c (m, n) = a (m, k) b (k, n), each transposed where it says so
  int multiprocessors;  // that it is made for; 0: all
};

// False, and a problem: cuBLAS would refuse it.
bool multiply(const ProductCall& call, Stream& stream);

}  // namespace paper

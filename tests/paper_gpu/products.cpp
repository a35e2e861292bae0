// SPDX-License-Identifier: Apache-2.0
#include "tests/paper_gpu/products.hpp"

#include <algorithm>
#include <string>

#include "tests/paper_gpu/report.hpp"
#include "tests/paper_gpu/settings.hpp"

namespace paper {
namespace {

constexpr std::int64_t tile = 128;    // rows and columns of a block's result
constexpr double least_share = .125;  // of a GPU's speed, that a product of one tile has by splitting its depth

struct Shape {
  std::int64_t rows, columns;  // as stored
};

Shape stored(const Operand& operand, std::int64_t rows, std::int64_t columns) {
  return operand.transposed ? Shape{columns, rows} : Shape{rows, columns};
}

std::int64_t size_of(Number number) {
  return number == Number::Bf16 ? 2 : number == Number::Float ? 4 : 8;
}

bool leading_is_enough(const Operand& operand, Shape shape, const char* name) {
  if (operand.leading >= std::max<std::int64_t>(1, shape.rows)) return true;
  problem("cuBLAS: the leading dimension of " + std::string(name) +
          " is too small: " + std::to_string(operand.leading) + " for columns of " + std::to_string(shape.rows));
  return false;
}

// All bytes from the first to the last that a batch touches.
Access extent(const Operand& operand, Shape shape, std::int64_t batch, const char* who) {
  if (shape.rows == 0 || shape.columns == 0) return {operand.data, 0, who};
  const std::int64_t numbers = (batch - 1) * operand.stride + (shape.columns - 1) * operand.leading + shape.rows;
  return {operand.data, numbers * size_of(operand.number), who};
}

bool aligned(const Operand& operand) {
  constexpr std::int64_t unit = 16;
  return reinterpret_cast<std::uintptr_t>(operand.data) % unit == 0 &&
         operand.leading * size_of(operand.number) % unit == 0 && operand.stride * size_of(operand.number) % unit == 0;
}

// Persistent kernels, with a block on each multiprocessor that the product is made for and has a tile for.
void time_of(const ProductCall& p, Work& work) {
  const int all = settings().multiprocessors, made_for = p.multiprocessors > 0 ? p.multiprocessors : all;
  const double flops = 2. * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) *
                       static_cast<double>(p.batch);
  const double peak = p.a.number == Number::Bf16    ? settings().flops_bf16
                      : p.a.number == Number::Float ? settings().flops_fp32
                                                    : settings().flops_fp64;
  const std::int64_t tiles = (p.m + tile - 1) / tile * ((p.n + tile - 1) / tile) * p.batch;
  work.multiprocessors = static_cast<int>(std::min<std::int64_t>(tiles, made_for));
  const double share = std::max(static_cast<double>(work.multiprocessors) / all, least_share);
  work.seconds = settings().kernel_seconds + flops / (peak * share);
  counts().flops += flops;
}

}  // namespace

bool multiply(const ProductCall& p, Stream& stream) {
  ++counts().products;
  if (p.m < 0 || p.n < 0 || p.k < 0 || p.batch < 0) {
    problem("cuBLAS: a negative size");
    return false;
  }
  const Shape a = stored(p.a, p.m, p.k), b = stored(p.b, p.k, p.n), c = stored(p.c, p.m, p.n);
  const bool enough =
      leading_is_enough(p.a, a, "A") && leading_is_enough(p.b, b, "B") && leading_is_enough(p.c, c, "C");
  if (!enough) return false;
  if (p.m == 0 || p.n == 0 || p.batch == 0) return true;
  if (p.a.number == Number::Bf16 && !(aligned(p.a) && aligned(p.b) && aligned(p.c))) ++counts().misaligned;
  Work work;
  work.name = "product";
  work.unit = Unit::Products;
  work.accesses = {extent(p.a, a, p.batch, "cuBLAS reads A,"), extent(p.b, b, p.batch, "cuBLAS reads B,"),
                   extent(p.c, c, p.batch, "cuBLAS writes C,")};
  time_of(p, work);
  enqueue(stream, std::make_shared<const Work>(std::move(work)));
  return true;
}

}  // namespace paper

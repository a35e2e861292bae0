// SPDX-License-Identifier: Apache-2.0
#include "models/price/kernel_agreement.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace dovetail {
namespace {

constexpr std::int64_t wide_product = 1024;  // columns

// More ranks or multiprocessors do not make more work for each.
bool is_kept(KernelKind kind, std::size_t size) {
  if (is_collective(kind)) return size == 0;
  return !computes(kind) && size == 3;
}

bool as_large(const KernelShape& a, const KernelShape& b) {
  for (std::size_t i = 0; i < a.size.size(); ++i)
    if (a.size[i] < b.size[i] || (a.size[i] > b.size[i] && is_kept(a.kind, i))) return false;
  return true;
}

void keep_larger(std::optional<Disagreement>& most, const Disagreement& other) {
  if (other.factor > (most ? most->factor : most_disagreement)) most = other;
}

}  // namespace

std::optional<Disagreement> larger_but_faster(std::span<const MeasuredKernel> kernels) {
  std::vector<std::size_t> ascending(kernels.size());
  std::iota(ascending.begin(), ascending.end(), std::size_t{0});
  std::ranges::sort(ascending, {}, [&](std::size_t i) { return kernels[i].time; });
  std::optional<Disagreement> most;
  for (const std::size_t slower : ascending)
    for (const std::size_t faster : ascending) {
      const double factor = kernels[slower].time / kernels[faster].time;
      if (factor <= most_disagreement) break;
      if (!as_large(kernels[faster].shape, kernels[slower].shape)) continue;
      keep_larger(most, {slower, faster, factor});
      break;
    }
  return most;
}

std::optional<Disagreement> dearer_in_fp8(std::span<const MeasuredKernel> fp8, std::span<const MeasuredKernel> half) {
  std::map<KernelShape, std::size_t> halves;
  for (std::size_t i = 0; i < half.size(); ++i) halves.emplace(half[i].shape, i);
  std::optional<Disagreement> most;
  for (std::size_t i = 0; i < fp8.size(); ++i) {
    const KernelShape& shape = fp8[i].shape;
    const auto same = halves.find(shape);
    if (same == halves.end() || (shape.kind == KernelKind::Gemm && shape.size[1] < wide_product)) continue;
    keep_larger(most, {i, same->second, fp8[i].time / half[same->second].time});
  }
  return most;
}

}  // namespace dovetail

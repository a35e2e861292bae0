// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/kernel_shape.hpp"

#include <algorithm>

#include "models/base/draws.hpp"
#include "models/base/errors.hpp"

namespace dovetail {
namespace {

constexpr std::array<std::string_view, 4> gemm_sizes{"rows", "columns", "inner", "groups"};
constexpr std::array<std::string_view, 5> attention_sizes{"batch", "sequence", "heads", "kv_heads", "head_size"};
constexpr std::array<std::string_view, 5> experts_sizes{"rows", "experts", "hidden", "inter", "seen"};
constexpr std::array<std::string_view, 2> collective_sizes{"ranks", "bytes"};
constexpr std::array<std::string_view, 4> exchange_sizes{"tokens", "rows", "hidden", "multiprocessors"};
constexpr double expert_matrices = 3;  // of a gated expert

}  // namespace

std::uint64_t mixed(const KernelShape& shape) {
  std::uint64_t value = static_cast<std::uint64_t>(shape.kind);
  for (const std::int64_t size : shape.size) value = mixed(value ^ static_cast<std::uint64_t>(size));
  return value;
}

bool computes(KernelKind kind) {
  return kind <= computing_kernels.back().second;
}

bool is_collective(KernelKind kind) {
  return kind >= collective_kernels.front().second && kind <= collective_kernels.back().second;
}

std::span<const std::string_view> kernel_size_names(KernelKind kind) {
  switch (kind) {
    case KernelKind::Gemm:
    case KernelKind::WeightGradient:
      return gemm_sizes;
    case KernelKind::Attention:
    case KernelKind::AttentionBackward:
      return attention_sizes;
    case KernelKind::Experts:
    case KernelKind::ExpertGradients:
      return experts_sizes;
    case KernelKind::Dispatch:
    case KernelKind::Combine:
      return exchange_sizes;
    default:
      return collective_sizes;
  }
}

KernelShape gemm_shape(std::int64_t rows, std::int64_t columns, std::int64_t inner, std::int64_t groups) {
  return {KernelKind::Gemm, {rows, columns, inner, groups}};
}

KernelShape attention_shape(std::int64_t batch, std::int64_t sequence, std::int64_t heads, std::int64_t kv_heads,
                            std::int64_t head_size) {
  return {KernelKind::Attention, {batch, sequence, heads, kv_heads, head_size}};
}

KernelShape experts_shape(std::int64_t rows, std::int64_t experts, std::int64_t hidden, std::int64_t inter,
                          std::int64_t seen) {
  return {KernelKind::Experts, {rows, experts, hidden, inter, seen}};
}

KernelShape as_kind(KernelShape shape, KernelKind kind) {
  shape.kind = kind;
  return shape;
}

KernelShape collective_shape(KernelKind kind, std::int64_t ranks, std::int64_t bytes) {
  check(is_collective(kind), "the shape of a collective is of a collective");
  return {kind, {ranks, bytes}};
}

KernelShape exchange_shape(KernelKind kind, std::int64_t tokens, std::int64_t rows, std::int64_t hidden,
                           std::int64_t multiprocessors) {
  check(kind == KernelKind::Dispatch || kind == KernelKind::Combine, "tokens are exchanged by dispatch and combine");
  return {kind, {tokens, rows, hidden, multiprocessors}};
}

Flops flops(const KernelShape& shape) {
  const auto size = [&](std::size_t i) { return static_cast<double>(shape.size[i]); };
  switch (shape.kind) {
    case KernelKind::Gemm:
    case KernelKind::WeightGradient:
      return Flops(2 * size(0) * size(1) * size(2) * size(3));
    case KernelKind::Attention:  // two products over the half of the square that the causal mask leaves
      return Flops(2 * size(0) * size(1) * size(1) * size(2) * size(4));
    case KernelKind::AttentionBackward:  // five, since the scores are computed again
      return Flops(5 * size(0) * size(1) * size(1) * size(2) * size(4));
    case KernelKind::Experts:
    case KernelKind::ExpertGradients:
      return Flops(2 * expert_matrices * size(0) * size(2) * size(3));
    default:
      return {};
  }
}

double right_factor(const KernelShape& shape) {
  const auto size = [&](std::size_t i) { return static_cast<double>(shape.size[i]); };
  switch (shape.kind) {
    case KernelKind::Gemm:
    case KernelKind::WeightGradient:
      return size(1) * size(2);
    case KernelKind::Experts:
    case KernelKind::ExpertGradients:
      return size(2) * size(3);
    default:
      return 0;
  }
}

double right_factors(const KernelShape& shape) {
  const bool product = shape.kind == KernelKind::Gemm || shape.kind == KernelKind::WeightGradient;
  const double factors =
      product ? static_cast<double>(shape.size[3]) : expert_matrices * static_cast<double>(shape.size[1]);
  return factors * right_factor(shape);
}

double amount(const KernelShape& shape) {
  if (computes(shape.kind)) return flops(shape).value();
  const auto size = [&](std::size_t i) { return static_cast<double>(shape.size[i]); };
  if (!is_collective(shape.kind)) return size(1) * size(2);
  const double passes = shape.kind == KernelKind::AllReduce ? 2 : 1;  // an all-reduce scatters, then gathers
  return passes * size(1) * (1 - 1 / std::max(size(0), 2.0));
}

}  // namespace dovetail

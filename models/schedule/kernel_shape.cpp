#include "models/schedule/kernel_shape.hpp"

#include "models/base/errors.hpp"

namespace dovetail {
namespace {

constexpr std::array<std::string_view, 4> gemm_sizes{"rows", "columns", "inner", "groups"};
constexpr std::array<std::string_view, 5> attention_sizes{"batch", "sequence", "heads", "kv_heads", "head_size"};
constexpr std::array<std::string_view, 5> experts_sizes{"rows", "experts", "hidden", "inter", "seen"};
constexpr double expert_matrices = 3;  // of a gated expert

}  // namespace

std::span<const std::string_view> kernel_size_names(KernelKind kind) {
  switch (kind) {
    case KernelKind::Gemm:
      return gemm_sizes;
    case KernelKind::Attention:
      return attention_sizes;
    case KernelKind::Experts:
      return experts_sizes;
  }
  return {};
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

Flops flops(const KernelShape& shape) {
  const auto size = [&](std::size_t i) { return static_cast<double>(shape.size[i]); };
  switch (shape.kind) {
    case KernelKind::Gemm:
      return Flops(2 * size(0) * size(1) * size(2) * size(3));
    case KernelKind::Attention:  // two products over the half of the square that the causal mask leaves
      return Flops(2 * size(0) * size(1) * size(1) * size(2) * size(4));
    case KernelKind::Experts:
      return Flops(2 * expert_matrices * size(0) * size(2) * size(3));
  }
  return {};
}

}  // namespace dovetail

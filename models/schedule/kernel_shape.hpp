// SPDX-License-Identifier: Apache-2.0
// Kernels whose time depends on their shape, not only on how many operations they do.
#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "models/base/dtype.hpp"
#include "models/base/names.hpp"
#include "models/base/units.hpp"

namespace dovetail {

// Gemm: `groups` products C[rows, columns] = A[rows, inner] B[inner, columns] in one launch.
// Attention: the causal flash kernel of `batch` sequences, forward.
// Experts: the forward pass of `experts` gated experts, `rows` rows in all, which they share equally. The kernel
// passes over `seen` rows: its own and, in libraries that leave them in place, those of experts elsewhere.
// WeightGradient: a product of the same sizes that is added to a gradient which adds up, in the format of that.
// AttentionBackward: the gradients of Attention.
// ExpertGradients: the weight gradients of Experts, each added to one that adds up.
// AllToAll to AllReduce: the collective among `ranks` GPUs of one node, of `bytes` as CollectiveCost counts its n.
// Dispatch, Combine: `tokens` of a rank to the ranks of their experts, one copy for each rank, and back: `rows` copies
// of `hidden` numbers, by a kernel on so many multiprocessors.
enum class KernelKind : std::uint8_t {
  Gemm,
  Attention,
  Experts,
  WeightGradient,
  AttentionBackward,
  ExpertGradients,
  AllToAll,
  AllGather,
  ReduceScatter,
  AllReduce,
  Dispatch,
  Combine
};
inline constexpr Names<KernelKind, 12> kernel_kind_names{{{"gemm", KernelKind::Gemm},
                                                          {"attention", KernelKind::Attention},
                                                          {"experts", KernelKind::Experts},
                                                          {"weight_gradient", KernelKind::WeightGradient},
                                                          {"attention_backward", KernelKind::AttentionBackward},
                                                          {"expert_gradients", KernelKind::ExpertGradients},
                                                          {"all_to_all", KernelKind::AllToAll},
                                                          {"all_gather", KernelKind::AllGather},
                                                          {"reduce_scatter", KernelKind::ReduceScatter},
                                                          {"all_reduce", KernelKind::AllReduce},
                                                          {"dispatch", KernelKind::Dispatch},
                                                          {"combine", KernelKind::Combine}}};
inline constexpr auto computing_kernels = std::span(kernel_kind_names).first<6>();
inline constexpr auto collective_kernels = std::span(kernel_kind_names).subspan<6, 4>();
bool computes(KernelKind kind);
bool is_collective(KernelKind kind);

struct KernelShape {
  KernelKind kind = KernelKind::Gemm;
  std::array<std::int64_t, 5> size{};  // by kernel_size_names
  friend auto operator<=>(const KernelShape&, const KernelShape&) = default;
};

// A number that follows from the shape alone, for draws (base/draws.hpp).
std::uint64_t mixed(const KernelShape& shape);

// The names of a shape's sizes, in order; the other sizes are 0.
std::span<const std::string_view> kernel_size_names(KernelKind kind);

KernelShape gemm_shape(std::int64_t rows, std::int64_t columns, std::int64_t inner, std::int64_t groups = 1);
KernelShape attention_shape(std::int64_t batch, std::int64_t sequence, std::int64_t heads, std::int64_t kv_heads,
                            std::int64_t head_size);
KernelShape experts_shape(std::int64_t rows, std::int64_t experts, std::int64_t hidden, std::int64_t inter,
                          std::int64_t seen);

// The same sizes in another kernel of the three pairs above.
KernelShape as_kind(KernelShape shape, KernelKind kind);

KernelShape collective_shape(KernelKind kind, std::int64_t ranks, std::int64_t bytes);
KernelShape exchange_shape(KernelKind kind, std::int64_t tokens, std::int64_t rows, std::int64_t hidden,
                           std::int64_t multiprocessors);

Flops flops(const KernelShape& shape);  // of kernels that compute; else 0
// Numbers in the right factors of all its products, and in one of them; 0 of kernels that are no products.
double right_factors(const KernelShape& shape);
double right_factor(const KernelShape& shape);
// By how much a rate multiplies: flops of kernels that compute, bytes to other ranks of collectives, numbers in the
// copies of dispatch and combine.
double amount(const KernelShape& shape);

// A kernel that an op launches, as a multiple of the kernel of that shape: a backward pass is 2 or more of the forward
// one, and part of a kernel less than 1.
struct KernelUse {
  KernelShape shape;
  double times = 1;
  int launches = 1;
  std::optional<DType> dtype = {};  // that it multiplies in; none: the workload's
  // Products of the shape that, one after another, read the same right factor or add to the same result.
  std::int64_t readers = 1;
  friend bool operator==(const KernelUse&, const KernelUse&) = default;
};

}  // namespace dovetail

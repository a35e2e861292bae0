// SPDX-License-Identifier: Apache-2.0
#include "models/price/peak_rates.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/base/json/quantity.hpp"
#include "models/base/names.hpp"
#include "models/price/collective_price.hpp"

namespace dovetail {
namespace {

constexpr Bytes in_caches(256e6);      // by choice more than any GPU has
constexpr int usual_gpus_of_node = 8;  // whose cards carry what a group on the node sends
constexpr double by_rounding = 1 + 1e-6;

template <class Rate>
std::optional<std::string> beyond(Rate rate, Rate peak, const std::string& what) {
  if (peak.value() <= 0 || rate <= by_rounding * peak) return {};
  return fmt::format("{} {}, above the {} of the hardware: is the time in microseconds?", format_quantity(rate), what,
                     format_quantity(peak));
}

// 0: not known.
FlopsPerSecond peak_of(const Hardware& hardware, DType dtype) {
  const auto of = [&](DType format) {
    const auto found = hardware.peak.find(format);
    return found == hardware.peak.end() ? FlopsPerSecond(0) : found->second;
  };
  return is_half(dtype) ? std::max(of(DType::Bf16), of(DType::Fp16)) : of(dtype);
}

// The fewest bytes that a kernel which computes reads and writes.
Bytes least_traffic(const KernelShape& shape, DType dtype) {
  const auto size = [&](std::size_t i) { return static_cast<double>(shape.size[i]); };
  const Bytes element = size_of(dtype);
  switch (shape.kind) {
    case KernelKind::Gemm:
    case KernelKind::WeightGradient:
      return size(3) * (size(0) * size(2) + size(2) * size(1) + size(0) * size(1)) * element;
    case KernelKind::Attention:
    case KernelKind::AttentionBackward:
      return 2 * size(0) * size(1) * (size(2) + size(3)) * size(4) * element;
    case KernelKind::Experts:
    case KernelKind::ExpertGradients:
      return (3 * std::min(size(0), size(1)) * size(3) + 2 * size(0)) * size(2) * element;
    default:
      return {};
  }
}

// The share of n that each rank sends or receives at least; an unknown number of ranks counts as two.
double least_share(Collective collective, double ranks) {
  switch (collective) {
    case Collective::AllToAll:
    case Collective::AllGather:
    case Collective::ReduceScatter:
    case Collective::AllReduce:
      return 1 - 1 / std::max(ranks, 2.0);
    default:
      return 1;
  }
}

// One copy of a token may stay on its rank.
std::optional<std::string> exchange_beyond(const KernelShape& shape, DType dtype, Seconds time,
                                           const Hardware& hardware) {
  const auto copies = static_cast<double>(std::max<std::int64_t>(shape.size[1] - shape.size[0], 0));
  const Bytes sent = copies * static_cast<double>(shape.size[2]) * size_of(dtype);
  return beyond(sent / time, hardware.node_bandwidth, "from a GPU to others of its node");
}

}  // namespace

std::optional<std::string> beyond_peak(const KernelShape& shape, DType dtype, Seconds time, const Hardware& hardware) {
  if (is_collective(shape.kind))
    return beyond_links({collective_of(shape.kind), LinkKind::Intra, static_cast<int>(shape.size[0])},
                        Bytes(static_cast<double>(shape.size[1])), time, hardware);
  if (!computes(shape.kind)) return exchange_beyond(shape, dtype, time, hardware);
  if (auto claim =
          beyond(flops(shape) / time, peak_of(hardware, dtype), fmt::format("in {}", name_in(dtype_names, dtype))))
    return claim;
  const Bytes traffic = least_traffic(shape, dtype);
  if (traffic <= in_caches) return {};
  return beyond(traffic / time, hardware.memory_bandwidth, "from device memory");
}

std::optional<std::string> beyond_links(const CollectiveGroup& group, Bytes n, Seconds time, const Hardware& hardware) {
  if (group.link == LinkKind::Intra)
    return beyond(least_share(group.collective, group.ranks) * n / time, hardware.node_bandwidth,
                  "from a GPU to others of its node");
  const int members = std::max(group.members_per_node, 1);
  // All members of a node send their own parts in an all-to-all, and share the work of the others.
  const double senders = group.collective == Collective::AllToAll ? members : 1;
  const Bytes of_node = senders * least_share(group.collective, static_cast<double>(group.ranks) / members) * n;
  return beyond(of_node / time, std::max(members, usual_gpus_of_node) * hardware.card_share,
                "through the network cards of a node");
}

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
// Laws of kernels: the time of a shape from a few parameters of a device. A law gives the form of the times; measured
// shapes correct it (kernel_table.hpp).
//
// Gemm and experts, T = (tiles^4 + memory^4)^(1/4) + launch per kernel:
//   tiles: the least over the tile sizes of waves x multiprocessors x 2 x tile x (inner + extra_inner) / (rate x share
//     of that tile size), where waves = ceil(tiles / multiprocessors). A last wave costs as much as a full one.
//   memory: the bytes of both factors and the product / bandwidth. Right factors that a cache holds are read from
//     memory by the first product of each, and at the cache's bandwidth by the others (SharedFactor).
//   Experts are two such products, one launch, and passes over all rows that the kernel looks at.
// Attention, T = ((flops / rate)^3 + memory^3)^(1/3) + launch.
// Collectives inside a node, T = launch + rank x (ranks - 1) + bytes / bandwidth, where bytes are those that a rank
//   sends to others (amount() in kernel_shape.hpp).
// Dispatch and combine, T = launch + max(bytes / (multiprocessors x share), bytes / bandwidth) + rows x row /
//   multiprocessors, where bytes are those of all copies.
// The powers make the transition between both bounds smooth. They were chosen by looking at H100's rows.
#pragma once
#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "models/base/units.hpp"
#include "models/schedule/kernel_shape.hpp"

namespace dovetail {

enum class GrowsWith : std::uint8_t { Nothing, Peak, MemoryBandwidth, NodeBandwidth };

struct LawParameter {
  std::string_view name;
  std::string_view meaning;  // with its unit
  double start = 1;          // where a fit begins
  double least = 0, most = 0;
  GrowsWith grows_with = GrowsWith::Nothing;  // of the device
};

inline constexpr std::size_t kernel_features = 5;
using KernelFeatures = std::array<double, kernel_features>;

// A right factor that `readers` products of one launch read one after another, from a cache all but the first.
struct SharedFactor {
  std::int64_t readers = 1;
  BytesPerSecond cache;  // to all multiprocessors together
};

struct KernelLaw {
  KernelKind kind;
  std::span<const LawParameter> parameters;
  // `parameters` as listed; `element`: bytes of a number.
  Seconds (*seconds)(const KernelShape& shape, std::span<const double> parameters, Bytes element);
  // Coordinates in which shapes that are near each other have like ratios of measured time and law: logarithms of
  // sizes, each weighted by how much it matters. Distances are sums of absolute differences.
  KernelFeatures (*features)(const KernelShape& shape);
  std::size_t launch = 0;  // the parameter that is the time of a launch, in microseconds
};

const KernelLaw& law_of(KernelKind kind);

// The law's time of products, or of experts, with shared right factors: at most that without.
Seconds seconds_with_shared(const KernelShape& shape, std::span<const double> parameters, Bytes element,
                            const SharedFactor& shared);

}  // namespace dovetail

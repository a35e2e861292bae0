// SPDX-License-Identifier: Apache-2.0
// The time of an op's kernels: of those that a table knows, by their shapes; of the others, by their flops.
//
// Experts that were measured as a whole take that time, also where it is longer than that of their parts: grouped
// products, by the table of products, with an activation that reads and writes device memory between them. The parts
// count where nobody measured the whole. The faster way counts if the table says that its kernel is one of several
// choices (KernelTable::or_grouped).
//
// Products that read the same right factor one after another (KernelUse::readers) read it from memory once, and later
// from the L2 cache, if its size and its bandwidth are known and the factor fits. Results that add up stay there, too.
// A cache that holds one factor is enough, since libraries multiply expert by expert.
#pragma once
#include <optional>
#include <span>

#include "models/price/calibration.hpp"
#include "models/price/step_cost.hpp"

namespace dovetail {

class KernelPrices {
 public:
  // Throws InputError where the calibration has no GEMM cost for `dtype`. `products`: the format of products that name
  // it (KernelUse::dtype), for which costs or a table of products must be known. The calibration must live as long.
  // `sustained`: kernels are as slow as in a training that lasts. `l2_cache`: of the device; 0: not known.
  KernelPrices(const Calibration& calibration, DType dtype, std::optional<DType> products = {}, bool sustained = false,
               Bytes l2_cache = {});

  // `row_share`: of the rows of each shape, those that there are. The launches are fixed.
  ResourceTime of(std::span<const KernelUse> kernels, double row_share) const;

  // The bytes of right factors that products read from the cache, having read them from memory once.
  Bytes read_from_cache(std::span<const KernelUse> kernels) const;

  // Whether kernels differ in more than their flops: in shapes that are known, or in formats.
  bool tells_kernels_apart() const;

 private:
  // The costs and tables of one format.
  struct Format {
    Format(const Calibration& calibration, DType dtype, bool sustained);
    const KernelTable* table(KernelKind kind) const { return tables[static_cast<std::size_t>(kind)]; }

    DType dtype;
    const GemmCost* gemm;                                               // null: none
    const SustainedRate* sustained = nullptr;                           // null: not known, or not asked for
    std::array<const KernelTable*, kernel_kind_names.size()> tables{};  // by KernelKind; null: none
  };

  const Format& format_of(const KernelUse& kernel) const;
  ResourceTime of(const KernelUse& kernel, double row_share) const;
  using Shared = std::optional<SharedFactor>;
  Shared shared_factor(const KernelUse& kernel) const;  // none: no factor is, or no cache holds it
  // The time of a kernel by the tables, and the part of it that no shape goes below. None where no table knows it.
  std::optional<ResourceTime> by_tables(const Format& format, const KernelShape& shape, const Shared& shared) const;
  std::optional<ResourceTime> by_experts(const Format& format, const KernelShape& shape, const Shared& shared) const;
  Seconds grouped_experts(const KernelTable& products, const KernelShape& shape, const Shared& shared) const;
  static Seconds grouped_gradients(const KernelTable& weights, const KernelShape& shape, const Shared& shared);
  double training_times(KernelKind kind) const;

  const Calibration& calibration_;
  Bytes element_, l2_cache_;
  Format usual_;
  std::optional<Format> products_;
};

// Costs by flops and bytes alone that no kernel and no collective of these costs undercuts, whatever its shape: for
// bounds of plans that cut them in unknown ways. Kernels are in `dtype` or, if given, in `products`.
Calibration least_costs(const Calibration& calibration, DType dtype, std::optional<DType> products = {});

}  // namespace dovetail

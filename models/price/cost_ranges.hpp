// SPDX-License-Identifier: Apache-2.0
// How far the costs of a calibration may be off, and calibrations in which they are.
//
// A cost is known within a factor w: of ten such costs, nine lie between 1 / w and w times what the calibration says,
// and the logarithm of that ratio is taken as normal. The factor is, in this order:
// - what the file states (`provenance.within`);
// - of costs with a fit, what nine of ten of its points keep, at least 1.02;
// - by origin, by choice: published 1.1; measured 1.08, by which GPUs of one kind differ (Sinha et al., SC22: 8 % on
//   average); fitted 1.15; assumed rates 1.3, as kernels reach 55 to 90 % of a datasheet's rate, and 1.75 between
//   nodes, which holds 71 of 81 exchanges of at least 1 MiB a GPU in data/operators (all-reduces among 16 A100 and
//   more, DeepEP on H100 with 12 multiprocessors and more; with fewer ones too 88 of 107); assumed latencies and the
//   slowing of ops that run together 2.
// Tables of kernels have this factor for all their shapes together. Each shape has its own beside it: that of the table
// (KernelTable::within), and that by which machines differ whose processor is the same. H100 and H200 do so by 1.2 in
// nine of ten of 8,420 products above 50 Gflop, by 1.05 in 6,658 attentions, and by 1.07 in 108 collectives from 1 MiB
// on (AIConfigurator 095f58a, one library on both). B200 and
// GB200 differ by more, 1.34 in the same products. Costs that rest on one assumption are off together: all assumed
// rates of exchanges between nodes, for instance.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "models/price/calibration.hpp"

namespace dovetail {

struct UncertainCost {
  std::string name;  // "exchanges between nodes", "gemm by shape (bf16)"
  Origin origin = Origin::Assumed;
  double within = 1;  // the largest of the costs that are off together
};

class CostRanges {
 public:
  // The calibration must live as long.
  explicit CostRanges(const Calibration& calibration);

  std::span<const UncertainCost> costs() const { return costs_; }

  // All costs are off, each as drawn for the seed: the same for every calibration that has a cost of that name.
  Calibration drawn(std::uint64_t seed) const;

  // One cost is off: at the slow end of its range where `ends` is 1, at the fast end where it is -1.
  Calibration at_end(std::size_t cost, double ends) const;

 private:
  // Puts a cost off by the power `ends` of its factor. `seed`: of the shapes of tables; 0: all alike.
  using Put = std::function<void(Calibration&, double ends, std::uint64_t seed)>;

  void add(const std::string& name, Origin origin, double within, Put put);
  void add_collective(std::size_t i);
  void add_gemm(std::size_t i);
  void add_kernel(std::size_t i);
  void add_training(std::size_t i);
  void add_sustained(std::size_t i);
  void add_messages(std::size_t i);
  void add_table(std::size_t i);
  void add_interference(std::size_t i);
  void add_memory_costs();

  const Calibration& calibration_;
  std::vector<UncertainCost> costs_;
  std::vector<std::vector<Put>> puts_;  // by cost
};

}  // namespace dovetail

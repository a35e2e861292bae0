// The times of one kind of kernel in one number format on one device: a law times the ratio of measured to law that the
// nearest measured shapes have.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "models/base/dtype.hpp"
#include "models/base/provenance.hpp"
#include "models/price/kernel_law.hpp"

namespace dovetail {

struct MeasuredKernel {
  KernelShape shape;
  Seconds time;
};

// Errors |predicted / measured - 1| on measured shapes that a table does not hold.
struct HeldBackError {
  std::size_t rows = 0;
  double mean = 0, ninetieth = 0;  // the share .9 of the rows has at most this
  double worst = 0;
  KernelShape worst_shape;
};

// By how much a device's rates are those that a table was measured at.
struct RateChange {
  double peak = 1, memory_bandwidth = 1, node_bandwidth = 1;
};

class KernelTable {
 public:
  // Throws InputError unless there are points, all of `kind`, and a parameter for each of the law.
  KernelTable(KernelKind kind, DType dtype, std::vector<double> law, std::vector<MeasuredKernel> points);

  Seconds seconds(const KernelShape& shape) const;  // remembered; may be called from several threads
  Seconds launch() const;                           // the part of it that no shape goes below
  // No shape does more in a second than the fastest measured one: amount(shape) / seconds.
  double fastest() const { return fastest_; }

  // For a device with other rates: those of the law are multiplied, and shapes keep their ratio to the law. The points
  // stay as measured.
  void scale(const RateChange& change);
  // The same times in a format that the same units compute in at the same rate. See find_table.
  KernelTable in(DType dtype) const;

  KernelKind kind() const { return kind_; }
  DType dtype() const { return dtype_; }
  const std::vector<double>& law() const { return law_; }
  const std::vector<MeasuredKernel>& points() const;

  HeldBackError error;
  Provenance provenance;

 private:
  struct Measured;
  struct Memo;
  Seconds by_law(const KernelShape& shape) const;
  Seconds predicted(const KernelShape& shape) const;

  KernelKind kind_;
  DType dtype_;
  std::vector<double> law_;
  double fastest_ = 0;
  std::shared_ptr<const Measured> measured_;  // copies of a table share this and the next
  std::shared_ptr<Memo> memo_;
};

// The table for kernels of `kind` that compute in `dtype`; null: none. Products in fp16 take the times of those in bf16
// where only these were measured, and the other way round: the same units do both at the same rate. Collectives take
// the same time in every format, because their sizes are bytes.
const KernelTable* find_table(const std::vector<KernelTable>& tables, KernelKind kind, DType dtype);

}  // namespace dovetail

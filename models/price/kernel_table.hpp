// SPDX-License-Identifier: Apache-2.0
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
  double covered = 0;  // the share of the rows within KernelTable::within of the prediction
};

// By how much a device's rates are those that a table was measured at.
struct RateChange {
  double peak = 1, memory_bandwidth = 1, node_bandwidth = 1;
};

// By how much the times of a table are off.
struct TableDeviation {
  double factor = 1;       // on all times
  double shapes = 0;       // on the time of each shape, this power of within()
  std::uint64_t seed = 0;  // other than 0: shapes also deviate each by a draw of their own
  double machines = 1;     // of ten shapes, nine of another machine of this kind are within this factor; for such draws
};

class KernelTable {
 public:
  // Throws InputError unless there are points, all of `kind`, and a parameter for each of the law.
  KernelTable(KernelKind kind, DType dtype, std::vector<double> law, std::vector<MeasuredKernel> points);

  Seconds seconds(const KernelShape& shape) const;  // remembered; may be called from several threads
  // The same of products, or of experts, with shared right factors: as much less as the law says.
  Seconds seconds(const KernelShape& shape, const SharedFactor& shared) const;
  // The true times of nine of ten shapes that the table does not hold are within this factor of seconds(). It is wide
  // where the nearest measured shapes disagree, and how wide follows from predicting measured shapes by the others.
  double within(const KernelShape& shape) const;
  Seconds launch() const;  // the part of it that no shape goes below
  // No shape does more in a second than the fastest measured one: amount(shape) / seconds.
  double fastest() const { return fastest_; }

  // For a device with other rates: those of the law are multiplied, and shapes keep their ratio to the law. The points
  // stay as measured.
  void scale(const RateChange& change);
  // From now on times are off by so much.
  void deviate(const TableDeviation& deviation) { deviation_ = deviation; }
  // The same times in a format that the same units compute in at the same rate. See find_table.
  KernelTable in(DType dtype) const;

  KernelKind kind() const { return kind_; }
  DType dtype() const { return dtype_; }
  const std::vector<double>& law() const { return law_; }
  const std::vector<MeasuredKernel>& points() const;

  HeldBackError error;
  Provenance provenance;
  // Experts: libraries for training do not run the measured kernel where grouped products are faster.
  bool or_grouped = false;
  bool sustained = false;  // measured as long and as hot as a training runs

 private:
  struct Measured;
  struct Memo;
  struct Prediction {
    Seconds time;
    double scatter = 0;  // of the logarithms of the nearest shapes' ratios
  };
  Seconds by_law(const KernelShape& shape) const;
  Prediction predict(const KernelShape& shape) const;
  Prediction remembered(const KernelShape& shape) const;
  double log_within(const Prediction& prediction) const;

  KernelKind kind_;
  DType dtype_;
  std::vector<double> law_;
  double fastest_ = 0;
  TableDeviation deviation_;
  std::shared_ptr<const Measured> measured_;  // copies of a table share this and the next
  std::shared_ptr<Memo> memo_;
};

// The table for kernels of `kind` that compute in `dtype`; null: none. Products in fp16 take the times of those in bf16
// where only these were measured, and the other way round: the same units do both at the same rate. Collectives take
// the same time in every format, because their sizes are bytes.
const KernelTable* find_table(const std::vector<KernelTable>& tables, KernelKind kind, DType dtype);
// The same of kernels that only move numbers: in whatever format they were measured. Null: none.
const KernelTable* find_table(const std::vector<KernelTable>& tables, KernelKind kind);

}  // namespace dovetail

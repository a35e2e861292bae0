// SPDX-License-Identifier: Apache-2.0
// Tables of kernels for a calibration, from a folder of measurements.
#pragma once
#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>

#include "models/base/dtype.hpp"
#include "models/files/load.hpp"

namespace dovetail {
struct Calibration;
}

namespace dovetail::bench {

// How many measured shapes a table keeps: "3000", or "50%" of them. By default both, so that some are held back.
// Throws InputError for another text.
class Keep {
 public:
  Keep() = default;
  explicit Keep(const std::string& text);
  std::size_t of(std::size_t shapes) const;

 private:
  double share_ = .8;
  double count_ = 3000;
};

struct MeasurementsRequest {
  std::string folder;
  std::string source;          // what to say of it in the calibration
  std::optional<DType> dtype;  // none: every number format that was measured
  Keep keep;
  bool sustained = false;  // measured under the load of a training
};

// Replaces the tables of the calibration that the folder measures. Throws as read_measurements, where nothing in the
// folder is in the format asked for, and at times that the calibration's hardware cannot reach or that no one kernel
// has (peak_rates.hpp, kernel_agreement.hpp).
void add_measured_kernels(Calibration& calibration, const MeasurementsRequest& request, FilesRead& files);

// A row for each table: what it holds, and its errors on shapes that were held back.
void write_kernel_tables(std::ostream& out, const Calibration& calibration, bool colour);

}  // namespace dovetail::bench

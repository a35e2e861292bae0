// SPDX-License-Identifier: Apache-2.0
// Measured times of single operators beside prices of them, as `dovetail reproduce operators` finds them out. Reports
// print it.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "models/results/measured_time.hpp"

namespace dovetail {

// A product, an attention, a collective or a dispatch, in a loop of its own, and what the calibration says of it.
struct MeasuredOperator : MeasuredTime {
  std::string kernel;  // by kernel_kind_names
};

// One file of measured operators.
struct OperatorsTable : MeasuredSource {
  std::string cluster, calibration;
  bool independent = true;  // neither the calibration nor the width of its ranges rests on this source
  std::vector<MeasuredOperator> operators;
};

// How near the prices of the operators of one source, or of one of its kernels, came.
struct OperatorsSummary : TimesSummary {
  std::string source, kernel;  // kernel empty: all of them
  bool independent = true;
};
// Source by source, in order; of several, all together at the end under "all" and, where some are not, those that are
// independent under "independent".
std::vector<OperatorsSummary> summarise_operators(std::span<const OperatorsTable> tables);
// Kernel by kernel, in the order of their first operators.
std::vector<OperatorsSummary> summarise_kernels(const OperatorsTable& table);

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
// How far the tensors of a device's step are from exact ones, beside how far the host's are in the same format. All of
// them are looked at, so that one fault does not hide the others.
#pragma once
#include <string>
#include <vector>

#include "exec/device/device.hpp"
#include "exec/device/element.hpp"
#include "exec/run/rank_values.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail::test {

// Errors are norms of differences, relative to the norm of the exact values.
struct TensorError {
  std::string op, tensor;  // the first op that writes it
  int rank = 0;
  double device = 0, host = 0;
  double limit = 0;  // of the device's error
  bool too_large() const { return !(device <= limit); }
};

// 1e-11 in double. In other formats three times the host's error, whose sums are in double, and some rounding: 4
// epsilons of float, 4 x 2^-23, or one of bf16, 2^-8, which is rounded to after sums in float.
double error_limit(exec::Stored stored, double host_error);

// One for every tensor that an op writes, on each rank; worst first, by the share of its limit. `host`: computed in the
// same format as on the device, `exact`: in double, both by the host from the same data. Tensors whose memory another
// one takes over are left out, as are the master weights that states of Adam hold in bf16 alone.
std::vector<TensorError> tensor_errors(const Schedule& schedule, exec::Stored stored, const exec::RankValues& device,
                                       const exec::RankValues& host, const exec::RankValues& exact);

// A line for each of the first ones.
std::string list_errors(const std::vector<TensorError>& errors, std::size_t lines = 20);

// Steps of random models by the default plan, in double, float and bf16, each from data that the format holds exactly.
// Prints of each step the tensors that are too far off, 20 at most, or else the worst one; then the worst of each
// format. A step with a tensor too far off fails a CHECK.
void check_tensors_on_device(exec::ComputeDevice& device, int models);

}  // namespace dovetail::test

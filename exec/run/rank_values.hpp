// SPDX-License-Identifier: Apache-2.0
// The values that an executed step left in the tensors of this process's ranks, whatever device they are on.
#pragma once
#include <span>
#include <vector>

#include "exec/reference/model_data.hpp"
#include "models/schedule/op.hpp"

namespace dovetail::exec {

// Before: tensors hold NaN when the step begins, but for its inputs. Yes: after their last read too (not those that
// results are read from).
enum class Poison { No, Before, Yes };

class RankValues {
 public:
  virtual ~RankValues() = default;
  virtual std::vector<int> ranks() const = 0;                       // of this process
  virtual Values values(std::size_t local, TensorId id) const = 0;  // what a tensor holds now
  virtual void sum(std::span<double>) const {}                      // element-wise over all processes
};

}  // namespace dovetail::exec

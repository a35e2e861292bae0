// SPDX-License-Identifier: Apache-2.0
// A relative Frobenius norm of a difference over the values of all ranks.
#pragma once
#include <array>
#include <cmath>
#include <cstddef>

#include "exec/reference/model_data.hpp"
#include "exec/run/rank_values.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {

class RelativeError {
 public:
  void add(const double* value, const double* expected, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      difference_ += (value[i] - expected[i]) * (value[i] - expected[i]);
      norm_ += expected[i] * expected[i];
    }
  }
  void add(const Values& value, const Values& expected) {
    check(value.size() == expected.size(), "values of another shape than the reference");
    add(value.data(), expected.data(), value.size());
  }
  // The error over the values that all processes added.
  double over(const RankValues& ranks) {
    std::array<double, 2> sums{difference_, norm_};
    ranks.sum(sums);
    return sums[0] == 0 ? 0 : std::sqrt(sums[0] / sums[1]);
  }

 private:
  double difference_ = 0, norm_ = 0;
};

}  // namespace dovetail::exec

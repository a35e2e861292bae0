// SPDX-License-Identifier: Apache-2.0
#include "models/price/measured_line.hpp"

namespace dovetail {

MeasuredSizes measured_sizes(const Provenance& provenance) {
  if (provenance.fit == nullptr || provenance.fit->points.empty()) return {};
  return {provenance.fit->points.front().size, provenance.fit->points.back().size};
}

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
#include "reports/sections/section.hpp"

#include <array>

namespace dovetail::reports {

// Each is defined in the file of its name.
Section throughput();
Section memory_by_kind();
Section critical_path();
Section costs_that_matter();

std::span<const Section> sections() {
  static const std::array list{throughput(), memory_by_kind(), critical_path(), costs_that_matter()};
  return list;
}

}  // namespace dovetail::reports

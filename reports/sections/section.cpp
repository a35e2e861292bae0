#include "reports/sections/section.hpp"

#include <array>

namespace dovetail::reports {

// Each is defined in the file of its name.
Section critical_path();
Section costs_that_matter();

std::span<const Section> sections() {
  static const std::array list{critical_path(), costs_that_matter()};
  return list;
}

}  // namespace dovetail::reports

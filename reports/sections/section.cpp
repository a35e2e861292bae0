// SPDX-License-Identifier: Apache-2.0
#include "reports/sections/section.hpp"

#include <array>

namespace dovetail::reports {

// Each is defined in the file of its name.
Section results();
Section best_layouts();
Section curve();
Section runs();
Section switches();
Section explanation();
Section confirmation();
Section tuned_systems();
Section framework();
Section throughput();
Section memory_by_kind();
Section memory_of_gpu();
Section critical_path();
Section costs_that_matter();
Section network();
Section choices();
Section reasons();
Section front();
Section how_it_was_found();
Section best_plan();

std::span<const Section> sections() {
  static const std::array list{results(),
                               best_layouts(),
                               curve(),
                               runs(),
                               switches(),
                               explanation(),
                               confirmation(),
                               tuned_systems(),
                               framework(),
                               throughput(),
                               memory_by_kind(),
                               memory_of_gpu(),
                               critical_path(),
                               network(),
                               costs_that_matter(),
                               choices(),
                               reasons(),
                               front(),
                               how_it_was_found(),
                               best_plan()};
  return list;
}

bool in_depth(const Report& report, Detail detail) {
  return detail != Detail::Brief || (report.results.size() == 1 && !report.tuning);
}

}  // namespace dovetail::reports

// Where a number comes from.
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace dovetail {

enum class Origin { Published, Measured, Fitted, Assumed };
inline constexpr std::array<std::pair<std::string_view, Origin>, 4> origin_names{{{"published", Origin::Published},
                                                                                  {"measured", Origin::Measured},
                                                                                  {"fitted", Origin::Fitted},
                                                                                  {"assumed", Origin::Assumed}}};

struct Provenance {
  Origin origin = Origin::Assumed;
  std::string source;  // paper and figure, or host, date and tool, with the published unit
};

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/operands.hpp"

#include <fmt/format.h>

#include <vector>

namespace dovetail {

std::string to_string(Role role) {
  std::vector<std::string> names;
  for (const bool gradient : {false, true})
    for (const auto& [name, kind] : tensor_kind_names)
      if (role.covers(kind, gradient)) names.push_back(fmt::format("{}{}", gradient ? "d_" : "", name));
  return fmt::format("{}", fmt::join(names, " or "));
}

}  // namespace dovetail

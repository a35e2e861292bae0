// SPDX-License-Identifier: Apache-2.0
#include "reports/text/csv_cells.hpp"

#include <fmt/format.h>

#include <cmath>

#include "models/base/plain_text.hpp"
#include "reports/text/format.hpp"

namespace dovetail::reports {

std::string csv_text(std::string_view value) {
  constexpr std::string_view formulas = "=+-@";
  std::string plain = plain_text(value);
  if (!plain.empty() && formulas.find(plain.front()) != std::string_view::npos) plain.insert(0, 1, '\'');
  if (plain.find_first_of(",\"") == std::string::npos) return plain;
  return '"' + replaced(std::move(plain), "\"", "\"\"") + '"';
}

std::string csv_number(std::optional<double> value) {
  return value && std::isfinite(*value) ? fmt::format("{}", *value) : "";
}

}  // namespace dovetail::reports

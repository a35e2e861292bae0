// SPDX-License-Identifier: Apache-2.0
// Enumerators to and from their names in files: one table per enumeration serves
// parsing, printing and the list in an error message.
#pragma once
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include "models/base/errors.hpp"

namespace dovetail {

template <class Enum, std::size_t N>
using Names = std::array<std::pair<std::string_view, Enum>, N>;

// Table is any range of pair<string_view, Enum>.
template <class Table, class Enum>
constexpr std::string_view name_in(const Table& table, Enum value) {
  for (const auto& [name, candidate] : table)
    if (candidate == value) return name;
  throw InternalError("enumerator without a name");
}

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
// Values that several kinds of result file share.
#pragma once
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "models/base/units.hpp"
#include "models/results/result.hpp"

namespace dovetail::reports {

// Null where it is not finite.
inline nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}
inline nlohmann::ordered_json number(Seconds value) {
  return number(value.value());
}
inline nlohmann::ordered_json number(Bytes value) {
  return number(value.value());
}
template <class T>
nlohmann::ordered_json number(const std::optional<T>& value) {
  return value ? number(*value) : nlohmann::ordered_json(nullptr);
}

inline nlohmann::ordered_json list_json(std::span<const Seconds> times) {
  auto list = nlohmann::ordered_json::array();
  for (Seconds time : times) list.push_back(number(time));
  return list;
}

nlohmann::ordered_json provenance_json(const RunProvenance& provenance);

}  // namespace dovetail::reports

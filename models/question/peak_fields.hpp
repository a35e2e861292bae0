// SPDX-License-Identifier: Apache-2.0
// The datasheet's rates by number format, of which a device need not have all.
#pragma once
#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <vector>

#include "models/base/dtype.hpp"
#include "models/base/fields.hpp"

namespace dovetail {

template <class Owner>
Field peak_rate(std::string_view name, DType dtype) {
  Field field = field::described(name, QuantityField{QuantityKind::ComputeRate, true},
                                 fmt::format("Rate in {}, without sparsity.", name));
  field.get = [dtype](const void* owner) -> FieldValue {
    const auto& peak = static_cast<const Owner*>(owner)->peak;
    const auto found = peak.find(dtype);
    return found == peak.end() ? FieldValue() : FieldValue(found->second.value());
  };
  field.set = [dtype](void* owner, const FieldValue& value) {
    static_cast<Owner*>(owner)->peak[dtype] = FlopsPerSecond(std::get<double>(value));
  };
  return std::move(field).as_result(name).else_taken("not known");
}

// The owner has a map `peak`.
template <class Owner>
const FieldTable& peak_fields() {
  static const FieldTable table = [] {
    std::vector<Field> fields;
    for (const auto& [name, dtype] : dtype_names) fields.push_back(peak_rate<Owner>(name, dtype));
    return FieldTable::of<Owner>("Peak", "Datasheet rates by number format.", std::move(fields));
  }();
  return table;
}

}  // namespace dovetail

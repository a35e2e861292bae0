// SPDX-License-Identifier: Apache-2.0
// The words of documents and lists for a field of a table.
#pragma once
#include <string>

#include "models/base/fields.hpp"

namespace dovetail {

// "number from 0 to 1", "true or false", "flash or eager", "data per time".
std::string values_text(const Field& field);

// The value that counts where nobody gives one: "the cluster's, else bf16". Empty for what must be given and for parts.
std::string default_text(const Field& field, const FieldTable& table);

// The unit of documents: "elements", "data per time"; empty for none.
std::string unit_text(const Field& field);

}  // namespace dovetail

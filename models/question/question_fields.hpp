// SPDX-License-Identifier: Apache-2.0
// Every field of a question by the path that --set takes: "workload.gate.kind".
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "models/base/fields.hpp"

namespace dovetail {

struct FieldPath {
  std::string path;
  const FieldTable* table = nullptr;
  const Field* field = nullptr;
};

// Fields of workload, parallelism, cluster and model that users may give, with those of their parts, but not what is in
// lists.
const std::vector<FieldPath>& question_fields();

// The first path that ends in this name; empty: there is none.
std::string path_of_field(std::string_view name);

}  // namespace dovetail

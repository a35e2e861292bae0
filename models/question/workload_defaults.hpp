// SPDX-License-Identifier: Apache-2.0
// Values that a cluster file suggests for runs on it, if the user gives none.
#pragma once
#include <map>
#include <string>

#include "models/base/fields.hpp"

namespace dovetail {

struct WorkloadDefaults {
  std::string model;                           // empty: none
  std::map<std::string, FieldValue> workload;  // by the names of its fields, those that a cluster may give
  bool groups_fill_nodes = false;              // default_parallelism, else trained_parallelism
  std::map<std::string, int> layers;           // of models that have more, by name
  std::string layers_reason;
};

}  // namespace dovetail

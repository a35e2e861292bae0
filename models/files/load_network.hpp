// SPDX-License-Identifier: Apache-2.0
// The rules of the network section of a cluster file.
#pragma once
#include "models/base/json/json_reader.hpp"
#include "models/question/cluster.hpp"

namespace dovetail {

// Throws InputError for what does not divide or contradicts the node's link. `json` is what the cluster's network was
// read from.
void require_network(const JsonReader& json, const Cluster& cluster);

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
// The network section of a cluster file.
#pragma once
#include "models/base/json/json_reader.hpp"
#include "models/question/cluster.hpp"

namespace dovetail {

// `cluster` has all but its network. Throws InputError for what does not divide or contradicts the node's link.
NetworkDescription read_network(const JsonReader& json, const Cluster& cluster);

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
// Changes that help where no layout divides everything, or where none fits.
#pragma once
#include <optional>
#include <string>

#include "planners/layouts/layout.hpp"

namespace dovetail::bench {

// The fixed sizes that leave no layout, each with the nearest one that would: "pp 5 (4 would), ep 7 (8 would)".
std::string sizes_at_fault(const Experiment& experiment, const planners::LayoutRequest& request);

// The least doubling of the nodes with which a layout has room for weights, gradients and optimizer states.
std::optional<int> enough_nodes(const Experiment& experiment, const planners::LayoutRequest& request, Bytes limit);

}  // namespace dovetail::bench

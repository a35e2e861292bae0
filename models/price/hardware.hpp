// SPDX-License-Identifier: Apache-2.0
// Costs follow the hardware. A calibration says on which hardware its costs were made; on a cluster with other rates
//   beta' = beta x rate there / rate here
// of the rate that bounds it: products by the peak of their number format, kernels by device memory, links inside a
// node by its bandwidth, links between nodes by each GPU's share of the network cards. Alphas stay, and so do the
// shares of a rate that a law reaches. Costs then count as assumed.
#pragma once
#include "models/price/calibration.hpp"
#include "models/question/cluster.hpp"

namespace dovetail {

Hardware hardware_of(const Cluster& cluster);

// `before`: the calibration without what the user has set in it. Rates that he has changed are taken to be those of his
// cluster, all others follow the hardware. Tables of measured shapes that a changed cost contradicts no longer count.
// Nothing follows a hardware that the calibration does not know. A line in `adapted` tells of every change.
// Products whose number format the cluster does not have lose their costs.
void adapt(Calibration& calibration, const Cluster& cluster, const Calibration& before);

}  // namespace dovetail

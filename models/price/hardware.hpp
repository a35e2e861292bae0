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

// Costs that the user has set are taken to be those of his cluster.
struct CostsSet {
  bool products = false, memory = false, links = false;
};

// Changes nothing where the calibration does not know its hardware. A line in `adapted` tells of every change. Products
// whose number format the cluster does not have lose their costs.
void adapt(Calibration& calibration, const Cluster& cluster, const CostsSet& set);

}  // namespace dovetail

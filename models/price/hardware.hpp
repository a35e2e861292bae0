// Costs follow the hardware. A calibration says on which hardware its costs were made; on a cluster with other rates
//   beta' = beta x rate there / rate here
// of the rate that bounds it: products by the peak of their number format, kernels by device memory, links inside a
// node by its bandwidth, links between nodes by each GPU's share of the network cards. Alphas stay, and so do the
// shares of a rate that a law reaches. Costs then count as assumed.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "models/price/calibration.hpp"
#include "models/question/cluster.hpp"

namespace dovetail {

Hardware hardware_of(const Cluster& cluster);

// The values of a calibration that the user has set: "gemms", "collectives.4.alpha". A rate among them is taken to be
// that of his cluster; all others follow the hardware.
struct CostsSet {
  std::vector<std::string> places;

  bool gives(std::string_view place) const;    // the value at this place, or all that it is a part of
  bool touches(std::string_view place) const;  // that, or a part of it
};

// Changes no rate where the calibration does not know its hardware. A line in `adapted` tells of every change. Products
// whose number format the cluster does not have lose their costs. No table counts beside what the user has touched.
void adapt(Calibration& calibration, const Cluster& cluster, const CostsSet& set);

}  // namespace dovetail

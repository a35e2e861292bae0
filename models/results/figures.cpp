// SPDX-License-Identifier: Apache-2.0
#include "models/results/figures.hpp"

#include <optional>

#include "models/price/calibration.hpp"
#include "models/price/network_pricing.hpp"

namespace dovetail {

std::vector<NetworkUse> network_use(const Experiment& experiment, const Schedule& schedule) {
  std::vector<NetworkUse> uses;
  std::optional<NetworkLoad> load = network_load(experiment, schedule);
  if (!load) return uses;
  const std::vector<std::string> names = load->resources();
  const auto links = load->network().links();
  for (std::size_t i = 0; i < links.size(); ++i) uses.push_back({names[i], links[i].links, links[i].bandwidth, {}});
  for (std::size_t i = 0; i < schedule.ops.size(); i += static_cast<std::size_t>(schedule.twins()))
    for (const LinkAmount& use : load->volumes(schedule.ops[OpId(i)]))
      uses[static_cast<std::size_t>(use.link)].bytes += Bytes(use.amount);
  std::erase_if(uses, [](const NetworkUse& use) { return use.bytes <= Bytes(0); });
  return uses;
}

std::string calibration_name(const Experiment& experiment) {
  return experiment.calibration->name;
}

}  // namespace dovetail

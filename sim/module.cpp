// SPDX-License-Identifier: Apache-2.0
#include "sim/module.hpp"

#include <string_view>

#include "sim/flow_backend.hpp"
#include "sim/simgrid_backend.hpp"

extern "C" __attribute__((visibility("default"))) dovetail::Backend* dovetail_make_simgrid_backend(
    const char* name, const char* platform) {
  if (std::string_view(name) == "simgrid") return new dovetail::sim::SimGridBackend();
  return new dovetail::sim::FlowBackend(platform);
}

// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/backends.hpp"

#include "tests/conformance/conformance.hpp"
#include "tests/conformance/host_backend.hpp"

namespace dovetail::test {

// All of this build that take the times of ops from their prices, and the host executor.
std::vector<BackendUnderTest> backends_under_test() {
  std::vector<BackendUnderTest> list;
  for (const bench::BackendEntry& entry : bench::backends())
    if (entry.make != nullptr && !entry.links_alone)
      list.push_back({entry.name, [make = entry.make](const Experiment&) { return make({}); }});
  list.push_back(
      {"host", [](const Experiment& e) { return std::make_unique<HostBackend>(e, inproc_transport_of); }, true});
  return list;
}

}  // namespace dovetail::test

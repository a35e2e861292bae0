#include <array>

#include "models/base/build_info.hpp"
#include "models/time/analytic_backend.hpp"
#include "tests/conformance/conformance.hpp"
#include "tests/conformance/host_backend.hpp"
#if DOVETAIL_HAS_SIMGRID
#include "sim/simgrid_backend.hpp"
#endif

namespace dovetail::test {

std::span<const BackendUnderTest> backends_under_test() {
  static const std::array table {
    BackendUnderTest{"analytic", [](const Experiment&) { return std::make_unique<AnalyticBackend>(); }},
#if DOVETAIL_HAS_SIMGRID
        BackendUnderTest{"simgrid", [](const Experiment&) { return std::make_unique<sim::SimGridBackend>(); }},
#endif
        BackendUnderTest{
            "host", [](const Experiment& e) { return std::make_unique<HostBackend>(e, inproc_transport_of); }, true},
  };
  return table;
}

}  // namespace dovetail::test

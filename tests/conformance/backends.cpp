#include <array>

#include "models/analytic_backend.hpp"
#include "models/build_info.hpp"
#include "tests/conformance/conformance.hpp"
#if DOVETAIL_HAS_SIMGRID
#include "sim/simgrid_backend.hpp"
#endif

namespace dovetail::test {

std::span<const BackendUnderTest> backends_under_test() {
  static const std::array table {
    BackendUnderTest{"analytic", [] { return std::make_unique<AnalyticBackend>(); }},
#if DOVETAIL_HAS_SIMGRID
        BackendUnderTest{"simgrid", [] { return std::make_unique<sim::SimGridBackend>(); }},
#endif
  };
  return table;
}

}  // namespace dovetail::test

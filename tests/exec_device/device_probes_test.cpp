// SPDX-License-Identifier: Apache-2.0
// The probes of a GPU's clock and of its products beside exchanges, on a device of host memory, which does one thing
// after another.
#include "tests/exec_device/device_probes.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

TEST_CASE("The clock of a device of host memory has figures") {
  const auto device = make_loop_device();
  const ClockFigures f = measure_clock(*device);
  CHECK(f.resolution >= Seconds(1e-9));
  CHECK(f.smallest_step >= f.resolution);
  for (Seconds time : {f.mark, f.captured_mark, f.launch, f.graph_launch, f.empty_op}) CHECK(time > Seconds(0));
  const std::string text = lines(f);
  CHECK(std::ranges::count(text, '\n') == 7);
}

TEST_CASE("Products begin after an exchange that does not run beside them, and take as long as alone") {
  const auto device = make_loop_device();
  const ProductsBesideExchange f = measure_beside_exchange(*device, 16, 4);
  CHECK(f.alone > Seconds(0));
  CHECK(f.products > f.exchange);  // this device does one after another
  CHECK(line(f).find("kept speed") != std::string::npos);
}

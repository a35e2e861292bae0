// SPDX-License-Identifier: Apache-2.0
// Costs outside of the sizes that they were fitted to.
#include "models/price/measured_line.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "models/files/calibration_file.hpp"
#include "models/files/read_parts.hpp"
#include "models/price/calibration.hpp"
#include "models/price/kernel_price.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;

namespace {

// 10 us + n x 1 us, measured from 1 to 4: neither its rate nor what a large n takes is known.
MemoryCost few_sizes() {
  Fit fit{{{1, Seconds(11e-6), 0}, {4, Seconds(14e-6), 0}}, 1};
  return {Seconds(1e-5), SecondsPerByte(1e-6), {Origin::Measured, "a test", false, std::make_shared<const Fit>(fit)}};
}

double us(const ResourceTime& time) {
  return (time.fixed + time.busy).value() * 1e6;
}

}  // namespace

TEST_CASE("a line holds where it was measured, and beyond with the rate that another calibration says") {
  MemoryCost cost = few_sizes();
  CHECK(us(time_of(cost, Bytes(104))) == Approx(114));
  cost.outside.beta = SecondsPerByte(1e-7);
  CHECK(us(time_of(cost, Bytes(3))) == Approx(13));
  CHECK(us(time_of(cost, Bytes(4))) == Approx(14));
  CHECK(us(time_of(cost, Bytes(104))) == Approx(14 + 10));
  CHECK(us(time_of(cost, Bytes(208), 2)) == Approx(2 * (14 + 10)));  // two launches of 104
  cost.provenance.fit = nullptr;
  CHECK(us(time_of(cost, Bytes(104))) == Approx(114));
}

TEST_CASE("below the smallest size a time falls to the alpha that another calibration says") {
  MemoryCost cost = few_sizes();
  cost.outside.alpha = Seconds(1e-6);
  CHECK(us(time_of(cost, Bytes(1))) == Approx(11));
  CHECK(us(time_of(cost, Bytes(.5))) == Approx(6));
  cost.outside.alpha = Seconds(1);  // more than was measured
  CHECK(us(time_of(cost, Bytes(.5))) == Approx(11));
}

TEST_CASE("what a fit knows is not taken from elsewhere") {
  MemoryCost cost = few_sizes();
  take_outside(cost, Seconds(1e-6), SecondsPerByte(1e-7));
  CHECK(cost.outside.beta == SecondsPerByte(1e-7));  // alpha is 10 of the 14 us
  CHECK_FALSE(cost.outside.alpha);                   // and of the 11
  cost = few_sizes();
  cost.alpha = Seconds(1e-8);
  take_outside(cost, Seconds(1e-6), SecondsPerByte(1e-7));
  CHECK_FALSE(cost.outside.beta);
  CHECK(cost.outside.alpha == Seconds(1e-6));
}

TEST_CASE("times are the less sure the further away a size is") {
  MemoryCost cost = few_sizes();
  cost.outside.off = 1;
  CHECK(time_of(cost, Bytes(4)).busy.value() == Approx(4e-6));
  CHECK(time_of(cost, Bytes(40)).busy.value() == Approx(40e-6 * tenfold_within));
  CHECK(time_of(cost, Bytes(400)).busy.value() == Approx(400e-6 * tenfold_within * tenfold_within));
  cost.outside.off = -1;
  CHECK(time_of(cost, Bytes(.1)).busy.value() == Approx(.1e-6 / tenfold_within));
}

TEST_CASE("no bound is above a cost of any size") {
  Calibration c = *test::round_numbers().calibration;
  c.memory = few_sizes();
  c.memory.outside = {Seconds(2e-6), SecondsPerByte(1e-7)};
  const Calibration least = least_costs(c, DType::Fp32);
  for (double n = .01; n < 1e4; n *= 1.5)
    CHECK(us(time_of(least.memory, Bytes(n))) <= us(time_of(c.memory, Bytes(n))) * (1 + 1e-12));
}

TEST_CASE("a file keeps what is said of sizes outside, with the sizes alone") {
  Calibration c = *test::round_numbers().calibration;
  c.memory = few_sizes();
  c.memory.outside = {Seconds(2e-6), SecondsPerByte(1e-7)};
  for (CollectiveCost& cost : c.collectives) cost.provenance.source = "here";
  for (GemmCost& cost : c.gemms) cost.provenance.source = "here";
  for (Interference& entry : c.interference) entry.provenance.source = "here";
  for (std::optional<MemoryCost>* copy : {&c.copy, &c.strided_copy})
    if (*copy) (*copy)->provenance.source = "here";
  c.memory.provenance.source = "here";
  std::string text = to_calibration_file(c, nlohmann::ordered_json::object());
  const auto read = [&] {
    const JsonFile file = JsonFile::parse(text, "c.json");
    return read_calibration(JsonReader(file)).memory;
  };
  CHECK(read().outside.alpha->value() == Approx(2e-6));
  CHECK(read().outside.beta->value() == Approx(1e-7));
  c.memory.provenance.fit = nullptr;
  text = to_calibration_file(c, nlohmann::ordered_json::object());
  CHECK_THROWS_WITH(read(), Catch::Contains("/memory/outside: without measured sizes it says nothing"));
}

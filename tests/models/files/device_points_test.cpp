// SPDX-License-Identifier: Apache-2.0
// Points of a device come back as they were written; other files are refused at their line.
#include "models/files/device_points.hpp"

#include <catch2/catch.hpp>

#include "models/base/errors.hpp"
#include "models/base/json/json_file.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using Catch::Matchers::StartsWith;

namespace {

DevicePoint product() {
  DevicePoint p;
  p.dtype = DType::Bf16;
  p.layout = ProductLayout::RightTransposed;
  p.batch = 8;
  p.rows = 320;
  p.inner = 2048;
  p.columns = 8192;
  p.flops = 2.0 * 8 * 320 * 2048 * 8192;
  p.median = Seconds(1.5e-4);
  p.ci95_low = Seconds(1.4e-4);
  p.ci95_high = Seconds(.1 + .2);  // no short decimal
  p.samples = 12;
  return p;
}

DevicePoint exchange() {
  DevicePoint p;
  p.what = DeviceWorkKind::Exchange;
  p.rows = 1;
  p.columns = 1024;
  p.blocks = 16;
  p.bytes = 4096;
  p.beside = "GEMM (bf16) and host copy";
  p.median = p.ci95_low = p.ci95_high = Seconds(1e-5);
  p.samples = 5;
  p.kept_speed = .625;
  p.predicted = Seconds(.25);
  return p;
}

}  // namespace

TEST_CASE("Points come back as they were written, each when it was added") {
  const test::TemporaryFolder folder;
  FilesRead files;
  DevicePointsWriter writer("p.csv");
  CHECK(read_device_points("p.csv", files).empty());
  writer.add(product());
  writer.add(exchange());
  const std::vector<DevicePoint> points = read_device_points("p.csv", files);
  REQUIRE(points.size() == 2);
  CHECK(points[0].same_work(product()));
  CHECK(points[0].flops == product().flops);
  CHECK(points[0].ci95_high == product().ci95_high);
  CHECK_FALSE(points[0].kept_speed);
  CHECK(points[0].per_second() == product().flops / 1.5e-4);
  CHECK(points[1].same_work(exchange()));
  CHECK_FALSE(points[1].same_work(product()));
  CHECK(points[1].beside == "GEMM (bf16) and host copy");
  CHECK(points[1].kept_speed == .625);
  CHECK_FALSE(points[0].predicted);
  CHECK(points[1].predicted == Seconds(.25));
  CHECK(files.at("p.csv").starts_with("what,dtype,layout,"));
}

TEST_CASE("A file of points that was cut off has those before, anything else is refused at its line") {
  const test::TemporaryFolder folder;
  {
    DevicePointsWriter writer("p.csv");
    writer.add(product());
    writer.add(exchange());
  }
  const std::string text = JsonFile::read_text("p.csv");
  FilesRead files;
  folder.write("cut.csv", text.substr(0, text.size() - 5));
  CHECK(read_device_points("cut.csv", files).size() == 1);
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& message) {
    std::string other = text;
    other.replace(other.find(from), from.size(), to);
    folder.write("bad.csv", other);
    CHECK_THROWS_WITH(read_device_points("bad.csv", files), StartsWith(message));
  };
  refused("what,", "who,", "bad.csv:1:1: no measured points of a device");
  refused("\nproduct", "\nquotient", "bad.csv:2:1: \"quotient\": unknown");
  refused(",320,", ",-320,", "bad.csv:2:33: \"-320\", expected a whole number from 0 on");
  refused(",320,", ",inf,", "bad.csv:2:33: \"inf\"");
  refused(",0.625,", ",0.625,0.25,", "bad.csv:3:114: 24 values, but the first line names 23");
  refused(",12,,", ",12,", "bad.csv:2:114: 22 values");
  refused("0.00015,", "0,", "bad.csv:2:70: a median of 0");
  // One column says what two others do.
  refused("0.00015,", "0.0003,", "bad.csv:2:114: 5.72662e+14, but the other columns say 2.86331e+14");
  folder.write("empty.csv", "");
  CHECK_THROWS_WITH(read_device_points("empty.csv", files), StartsWith("empty.csv:1:1: no measured points"));
  CHECK_THROWS_AS(read_device_points("none.csv", files), InputError);
  CHECK_THROWS_AS(DevicePointsWriter("none/p.csv"), InputError);
}

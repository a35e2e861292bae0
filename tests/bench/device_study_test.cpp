// SPDX-License-Identifier: Apache-2.0
// Measurements that stand beside plans: our points and PyTorch's times of the very same work. All times are made up.
#include "bench/validate/device_study.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "models/base/errors.hpp"
#include "models/files/device_points.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using namespace dovetail::bench;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

constexpr auto made_up_baselines = R"({"gpu": "none", "versions": {"torch": "0"}, "measurements": [
  {"kind": "product", "product": "up", "pass": "forward", "dtype": "bf16", "batch": 2, "rows": 8, "inner": 16,
   "columns": 32, "median_s": 0.5, "ci95_s": [0.4, 0.6], "samples": 3},
  {"kind": "copy", "bytes": 4096, "median_s": 1, "ci95_s": [1, 1], "samples": 3}]})";
constexpr auto made_up_step = R"({"what": "a step", "gpu": "none", "versions": {}, "arguments": {"hidden": 64},
  "median_s": 0.5, "ci95_s": [0.4, 0.6]})";
constexpr auto made_up_run =
    R"({"schema_version": "1.0", "kind": "run", "inputs": {"model": {"hidden": 64}}, "results": [
  {"kind": "predicted"},
  {"kind": "measured", "system": "deepspeed_moe", "plan": {"forward_degree": 1}, "makespan_s": 2,
   "streams": [{"name": "compute", "busy_s": 0.75}, {"name": "inter", "busy_s": 1}]}]})";

DevicePoint product(double time, const std::string& beside = "") {
  DevicePoint p;
  p.dtype = DType::Bf16;
  p.batch = 2;
  p.rows = 8;
  p.inner = 16;
  p.columns = 32;
  p.flops = 1;
  p.median = Seconds(time);
  p.beside = beside;
  return p;
}

}  // namespace

TEST_CASE("PyTorch's times are compared with our last point of the same work alone") {
  const test::TemporaryFolder folder;
  folder.write("b.json", made_up_baselines);
  folder.write("l.json", R"({"calls": [{"gpu": "old"}, {"gpu": {"name": "none", "clocks": [1, 2]}, "nccl": null}]})");
  {
    DevicePointsWriter points("p.csv");
    points.add(product(2));
    points.add(product(1));
    points.add(product(4, "host copy"));
  }
  FilesRead files;
  std::vector<std::string> notes;
  const DeviceStudy study = read_device_study({"p.csv", "b.json", "", "", "l.json"}, files, notes);
  CHECK(study.points.size() == 3);
  REQUIRE(study.peers.size() == 1);
  CHECK(study.peers[0].efficiency() == .5);  // .5 s against 1 s
  REQUIRE(notes.size() == 1);
  CHECK(notes[0] == "1 of 2 measurements of PyTorch have no point of ours of the same size");
  using Label = std::pair<std::string, std::string>;
  CHECK(study.labels == std::vector<Label>{{"gpu clocks", "1"},
                                           {"gpu clocks", "2"},
                                           {"gpu name", "none"},
                                           {"PyTorch on", "none"},
                                           {"PyTorch with torch", "0"}});
  CHECK(files.size() == 3);
}

TEST_CASE("Times at clocks that are more than 2 % apart are not compared, and that is said") {
  const test::TemporaryFolder folder;
  auto baselines = nlohmann::json::parse(made_up_baselines);
  baselines["measurements"][0]["clock_mhz"] = 1980;
  folder.write("b.json", baselines.dump());
  auto step = nlohmann::json::parse(made_up_step);
  step["clock_mhz"] = 1500;
  folder.write("t.json", step.dump());
  FilesRead files;
  std::vector<std::string> notes;
  const auto read = [&](double mhz) {
    DevicePoint point = product(1);
    point.clock.mhz = mhz;
    DevicePointsWriter("p.csv").add(point);
    auto run = nlohmann::json::parse(made_up_run);
    run["results"][1]["run"] = {{"clock_mhz", mhz > 0 ? nlohmann::json(mhz) : nlohmann::json(nullptr)}};
    folder.write("r.json", run.dump());
    notes.clear();
    return read_device_study({"p.csv", "b.json", "t.json", "r.json", ""}, files, notes);
  };
  const DeviceStudy apart = read(1700);  // 1980 and 1500 are 14 and 12 % off
  CHECK(apart.peers.empty());
  CHECK_FALSE(apart.step);
  REQUIRE(notes.size() == 3);  // the copy has no point of ours
  CHECK(notes[0] ==
        "up, forward of PyTorch is not compared, because clocks differ by more than 2 %: ours at 1700 MHz, "
        "PyTorch's at 1980 MHz");
  CHECK(notes[2] ==
        "the step of PyTorch is not compared, because clocks differ by more than 2 %: ours at 1700 MHz, "
        "PyTorch's at 1500 MHz");
  CHECK(read(1970).peers.size() == 1);
  CHECK(read(1490).step);
  const DeviceStudy unknown = read(0);
  CHECK((unknown.peers.size() == 1 && unknown.step));
}

TEST_CASE("A step of PyTorch stands beside the compute of ours, of the same layer at degree 1") {
  const test::TemporaryFolder folder;
  folder.write("t.json", made_up_step);
  folder.write("r.json", made_up_run);
  FilesRead files;
  std::vector<std::string> notes;
  const auto read = [&] { return read_device_study({"", "", "t.json", "r.json", ""}, files, notes); };
  const DeviceStudy study = read();
  REQUIRE(study.step);
  CHECK(study.step->system == "deepspeed_moe");
  CHECK(study.step->ours == Seconds(2));
  CHECK(study.step->ours_compute == Seconds(.75));
  CHECK(study.step->peer == Seconds(.5));
  const auto refused = [&](const std::string& pointer, const nlohmann::json& value, const std::string& message) {
    nlohmann::json json = nlohmann::json::parse(made_up_run);
    json[nlohmann::json::json_pointer(pointer)] = value;
    folder.write("r.json", json.dump());
    CHECK_THROWS_WITH(read(), StartsWith("r.json:1:") && Contains(message));
  };
  refused("/inputs/model/hidden", 128, "128, but t.json is of hidden size 64: another layer");
  refused("/results/1/plan/forward_degree", 2, "more than 1");
  refused("/inputs/workload/extent", "model", "PyTorch's layer has no embedding");
  refused("/results/1/kind", "predicted", "none is measured");
}

TEST_CASE("Files that go together are given together") {
  FilesRead files;
  std::vector<std::string> notes;
  CHECK_THROWS_WITH(read_device_study({"", "b.json", "", "", ""}, files, notes), StartsWith("--baselines"));
  CHECK_THROWS_WITH(read_device_study({"", "", "t.json", "", ""}, files, notes), StartsWith("--step and --run"));
  CHECK_THROWS_WITH(read_device_study({"", "", "", "r.json", ""}, files, notes), StartsWith("--step and --run"));
}

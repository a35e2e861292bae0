// SPDX-License-Identifier: Apache-2.0
// Files like those that PyTorch's scripts write, with times made up for this test.
#include "models/files/peer_times.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "models/base/errors.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

constexpr auto made_up =
    R"({"what": "made up", "gpu": "none", "versions": {"torch": "0", "cuda": null}, "measurements": [
  {"kind": "product", "product": "up", "pass": "weight_gradient", "dtype": "bf16", "batch": 2, "rows": 8, "inner": 16,
   "columns": 32, "flops": 16384, "median_s": 0.5, "ci95_s": [0.4, 0.6], "samples": 3},
  {"kind": "attention", "pass": "forward_and_backward", "dtype": "bf16", "batch": 2, "sequence": 64, "heads": 4,
   "kv_heads": 2, "head_size": 16, "causal": true, "flops": 7.0, "median_s": 2, "ci95_s": [1, 3], "samples": 3},
  {"kind": "copy", "bytes": 4096, "median_s": 1, "ci95_s": [1, 1], "samples": 3}]})";

}  // namespace

TEST_CASE("Measurements of PyTorch are points of the same kinds as ours") {
  const test::TemporaryFolder folder;
  folder.write("b.json", made_up);
  FilesRead files;
  const PeerPoints peers = read_peer_points("b.json", files);
  CHECK(peers.versions.at("cuda") == "null");
  REQUIRE(peers.points.size() == 3);
  const DevicePoint& product = peers.points[0].point;
  CHECK(peers.points[0].name == "up, weight_gradient");
  CHECK(product.layout == ProductLayout::LeftTransposed);
  CHECK(product.flops == 2.0 * 2 * 8 * 16 * 32);
  CHECK(product.ci95_high == Seconds(.6));
  const DevicePoint& attention = peers.points[1].point;
  CHECK(attention.what == DeviceWorkKind::AttentionBoth);
  CHECK((attention.batch == 2 && attention.rows == 64 && attention.columns == 16 && attention.kv_heads == 2));
  const DevicePoint& copy = peers.points[2].point;
  CHECK(copy.columns == 2048);  // of two bytes
  CHECK(copy.bytes == 8192);    // read and written
  CHECK(files.contains("b.json"));
}

TEST_CASE("Wrong values in files of PyTorch's times are refused at their place") {
  const test::TemporaryFolder folder;
  FilesRead files;
  const auto refused = [&](const std::string& pointer, const nlohmann::json& value, const std::string& message) {
    nlohmann::json json = nlohmann::json::parse(made_up);
    json[nlohmann::json::json_pointer(pointer)] = value;
    folder.write("b.json", json.dump());
    CHECK_THROWS_WITH(read_peer_points("b.json", files), StartsWith("b.json:1:") && Contains(message));
  };
  refused("/measurements/0/pass", "sideways", "/measurements/0/pass");
  refused("/measurements/0/median_s", 0, "/measurements/0/median_s");
  refused("/measurements/0/ci95_s", {1, 2, 3}, "the two ends of an interval");
  refused("/measurements/0/median_s", 0.7, "/measurements/0/median_s: 0.7 s, outside of its interval of 0.4 to 0.6 s");
  refused("/measurements/0/flops", 8192, "/measurements/0/flops: 8192, but the sizes make 16384");
  refused("/measurements/1/heads", 0, "/measurements/1/heads");
  refused("/measurements/2/bytes", 4097, "expected whole elements of two bytes");
  refused("/measurements/2/kind", "swap", "/measurements/2/kind");
  folder.write("t.json", R"({"what": "made up", "gpu": "none", "versions": {}, "arguments": {"hidden": "x"}})");
  CHECK_THROWS_WITH(read_peer_step("t.json", files), StartsWith("t.json:1:") && Contains("/arguments/hidden"));
}

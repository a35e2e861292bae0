// SPDX-License-Identifier: Apache-2.0
// Values of the hardware that costs do not follow are told, whoever set them; those that count are not.
#include "bench/pipeline/hardware_notes.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "bench/pipeline/question.hpp"
#include "models/files/calibration_file.hpp"
#include "models/price/calibration.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using namespace dovetail::bench;

namespace {

const std::string h100 = "dgx-h100";

// All that is noted, without what else notes say.
std::vector<std::string> hardware_lines(const std::string& cluster, const std::vector<std::string>& set,
                                        const std::string& backend = "simgrid", const std::string& calibration = "") {
  ExperimentRequest request;
  request.cluster = cluster;
  request.model = "mixtral-8x7b";
  request.calibration = calibration;
  request.set = set;
  request.set.emplace_back("workload.layers=1");
  FilesRead files;
  std::vector<std::string> notes, lines;
  const Experiment e = load_experiment(request, files, notes);
  add_hardware(e, {request, files, backend}, lines);
  return lines;
}

// A shipped calibration, as one that does not know its hardware: as measured on a machine that nobody described.
class Unknown {
 public:
  explicit Unknown(const std::string& calibration) : name_(calibration + "-unknown.json") {
    FilesRead files;
    Calibration c = load_calibration(calibration, files);
    c.hardware.reset();
    c.tables.clear();
    folder_.write(name_, to_calibration_file(c, nlohmann::ordered_json::object()));
  }
  std::vector<std::string> lines(const std::string& cluster, const std::vector<std::string>& set,
                                 const std::string& backend = "simgrid") const {
    return hardware_lines(cluster, set, backend, name_);
  }
  const std::string& name() const { return name_; }

 private:
  test::TemporaryFolder folder_;
  std::string name_;
};

constexpr auto in_its_place =
    ": costs are those of calibration dgx-h100. Use --set calibration.collectives.N.beta=..., a described network with "
    "--backend simgrid-flow or a calibration of your own (dovetail calibrate) instead";

}  // namespace

TEST_CASE("hardware as the calibration's cluster has it draws no note") {
  for (const std::string& cluster : known_names("clusters")) {
    INFO(cluster);
    const bool of_another = cluster == "hgx-h100" || cluster == "hgx-h800";  // the costs of dgx-h100, brought there
    CHECK(hardware_lines(cluster, {}).empty() != of_another);
  }
  // As many cards for each GPU, and more of all else that costs do follow.
  CHECK(hardware_lines(h100, {"cluster.gpus_per_node=4", "cluster.nics_per_node=4"}).empty());
  CHECK(hardware_lines(h100, {"cluster.nodes=4", "cluster.device.memory=640 GiB"}).empty());
}

TEST_CASE("costs follow the hardware, and that is told") {
  const auto slower = hardware_lines(h100, {"cluster.nic_bandwidth=200 Gb/s"});
  REQUIRE(slower.size() == 1);
  CHECK(slower[0] ==
        "cluster.nic_bandwidth gives each GPU 25 GB/s, and dgx-h100 was made for 50 GB/s: exchanges between nodes are "
        "assumed to run at 0.5 times its rates");
  CHECK(hardware_lines(h100, {"cluster.nics_per_node=16"}).size() == 1);
  CHECK(hardware_lines(h100, {"cluster.node_bandwidth=900 GB/s", "cluster.device.memory_bandwidth=4 TB/s",
                              "cluster.device.peak.bf16=2000 TFLOP/s"})
            .size() == 3);
  const auto link = hardware_lines(h100, {"cluster.node_link=pcie"});
  REQUIRE(link.size() == 1);
  CHECK_THAT(link[0], Catch::StartsWith("cluster.node_link pcie (dgx-h100: nvswitch) changes nothing"));
}

TEST_CASE("a setting of the hardware that changes no cost is told where a calibration does not know its hardware") {
  const Unknown unknown(h100);
  const auto hardware_lines = [&](const std::string& cluster, const std::vector<std::string>& set) {
    return unknown.lines(cluster, set);
  };
  const auto faster = hardware_lines(h100, {"cluster.nic_bandwidth=800 Gb/s"});
  REQUIRE(faster.size() == 1);
  CHECK(faster[0] == "cluster.nic_bandwidth 100 GB/s (dgx-h100: 50 GB/s) changes nothing" + std::string(in_its_place));
  const auto inside = hardware_lines(h100, {"cluster.node_bandwidth=20 GB/s"});
  REQUIRE(inside.size() == 1);
  CHECK_THAT(inside[0], Catch::StartsWith("cluster.node_bandwidth 20 GB/s (dgx-h100: 450 GB/s) changes nothing"));
  const auto kernels =
      hardware_lines(h100, {"cluster.device.peak.bf16=2000 TFLOP/s", "cluster.device.memory_bandwidth=4 TB/s"});
  REQUIRE(kernels.size() == 1);
  CHECK(
      kernels[0] ==
      "cluster.device.memory_bandwidth 4 TB/s (dgx-h100: 3.35 TB/s), cluster.device.peak.bf16 2 PFLOP/s (dgx-h100: 989 "
      "TFLOP/s) change nothing: costs are those of calibration dgx-h100. Use --set calibration.memory.beta=..., --set "
      "calibration.gemms.N.beta=... or a calibration of your own (dovetail calibrate) instead");
  CHECK(hardware_lines(h100, {"cluster.nics_per_node=16"}).size() == 1);
}

TEST_CASE("slower network cards count as a bound, and that is told") {
  const Unknown unknown(h100);
  const auto hardware_lines = [&](const std::string& cluster, const std::vector<std::string>& set,
                                  const std::string& backend = "simgrid") {
    return unknown.lines(cluster, set, backend);
  };
  const auto lines = hardware_lines(h100, {"cluster.nic_bandwidth=200 Gb/s"});
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Catch::StartsWith("cluster.nic_bandwidth 25 GB/s (dgx-h100: 50 GB/s) counts only as a bound ("));
  CHECK_THAT(lines[0], Catch::Contains("all_to_all, all_reduce between nodes take what the cards carry"));
  const auto messages = Unknown("ndv4").lines("ndv4", {"cluster.nic_bandwidth=100 Gb/s"});
  REQUIRE(messages.size() == 1);
  CHECK_THAT(messages[0], Catch::Contains("(all_to_all, all_reduce between nodes"));
  CHECK_THAT(messages[0], Catch::Contains("--set calibration.messages.N.bandwidth=..."));
}

TEST_CASE("costs that the user sets beside the hardware are taken to follow it, unless they contradict it") {
  const Unknown unknown(h100);
  const auto hardware_lines = [&](const std::string& cluster, const std::vector<std::string>& set,
                                  const std::string& backend = "simgrid") {
    return unknown.lines(cluster, set, backend);
  };
  const std::string slow = "cluster.nic_bandwidth=100 Gb/s";
  CHECK(hardware_lines(h100,
                       {slow, "calibration.collectives.4.beta=88.9 ps/B", "calibration.collectives.7.beta=177.8 ps/B"})
            .empty());
  const auto contradiction = hardware_lines(h100, {"calibration.collectives.7.beta=20 ps/B"});
  REQUIRE(contradiction.size() == 1);
  CHECK(contradiction[0] ==
        "dgx-h100: all_reduce between nodes would be faster than the network cards of dgx-h100 carry (50 GB/s for each "
        "GPU), so that the cards' rate counts: one of the two is wrong");
  CHECK(hardware_lines(h100, {slow, "calibration.collectives.7.beta=44.4 ps/B"}).size() == 1);
  CHECK(hardware_lines(h100, {slow, "calibration.collectives.7.alpha=1 us"}) == hardware_lines(h100, {slow}));
}

TEST_CASE("a described network counts what its links carry") {
  const Unknown unknown(h100);
  const auto hardware_lines = [&](const std::string& cluster, const std::vector<std::string>& set,
                                  const std::string& backend = "simgrid") {
    return unknown.lines(cluster, set, backend);
  };
  const std::string slow = "cluster.nic_bandwidth=100 Gb/s", fast = "cluster.nic_bandwidth=800 Gb/s";
  CHECK(hardware_lines("dgx-h100-rails", {slow}).empty());
  CHECK(hardware_lines("dgx-h100-rails", {"cluster.device.memory_bandwidth=1 TB/s"}).empty());
  const auto faster = hardware_lines("dgx-h100-rails", {fast});
  REQUIRE(faster.size() == 1);
  CHECK_THAT(faster[0], Catch::Contains("counts only as a bound (a described link adds time"));
  CHECK(hardware_lines("dgx-h100-rails", {fast}, "simgrid-flow").empty());
  CHECK(hardware_lines("dgx-h100-rails", {"cluster.device.memory_bandwidth=1 TB/s"}, "simgrid-flow").size() == 1);
}

TEST_CASE("a cluster that borrows a calibration, or names none, is told what was adapted") {
  const auto borrowed = hardware_lines(h100, {}, "simgrid", "hgx-h200");
  REQUIRE(borrowed.size() == 1);
  CHECK(borrowed[0] ==
        "cluster.device.memory_bandwidth is 3.35 TB/s, and hgx-h200 was made for 4.8 TB/s: kernels bound by device "
        "memory are assumed to run at 0.6979 times its rates");
  const test::TemporaryFolder folder;
  const std::string own = R"({"name": "own", "nodes": 2, "gpus_per_node": 8, "device": {"name": "GPU", "memory":
    "80 GiB", "memory_bandwidth": "3350 GB/s"}, "node_link": "nvswitch", "node_bandwidth": "450 GB/s",
    "nics_per_node": 4, "nic_bandwidth": "200 Gb/s")";
  folder.write("own.json", own + R"(, "calibration": "dgx-h100"})");
  const auto adapted = hardware_lines("own.json", {});
  REQUIRE(adapted.size() == 1);
  CHECK_THAT(adapted[0],
             Catch::StartsWith("cluster.nic_bandwidth gives each GPU 12.5 GB/s, and dgx-h100 was made for"));
  folder.write("own.json", own + "}");
  const auto derived = hardware_lines("own.json", {});
  REQUIRE(derived.size() == 2);
  CHECK(derived[0] == "own names no calibration: its costs are derived from dgx-h100");
  CHECK(derived[1] == adapted[0]);
}

TEST_CASE("notes of a question hold these lines, points of a sweep share one") {
  Options options;
  options.request.cluster = h100;
  options.request.model = "mixtral-8x7b";
  options.request.set = {"cluster.node_bandwidth=20 GB/s", "workload.layers=1"};
  options.systems = {"tutel"};
  const Question question = load_question(options);
  CHECK_THAT(question.notes.back(), Catch::StartsWith("cluster.node_bandwidth is 20 GB/s"));
  const Unknown unknown(h100);
  options.request.calibration = unknown.name();
  std::vector<HardwareFinding> findings;
  for (const char* value : {"100 GB/s", "450 GB/s", "900 GB/s", "100 GB/s"}) {
    options.request.set[0] = "cluster.node_bandwidth=" + std::string(value);
    FilesRead files;
    std::vector<std::string> notes;
    const Experiment e = load_experiment(options.request, files, notes);
    add_findings(hardware_findings(e, {options.request, files, "simgrid"}), findings);
  }
  REQUIRE(sentences(findings).size() == 1);
  CHECK_THAT(sentences(findings)[0],
             Catch::StartsWith("cluster.node_bandwidth 100 GB/s, 900 GB/s (dgx-h100: 450 GB/s) changes nothing"));
}

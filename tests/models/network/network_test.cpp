// SPDX-License-Identifier: Apache-2.0
#include "models/network/network.hpp"

#include <catch2/catch.hpp>

#include "models/base/errors.hpp"
#include "models/files/load.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using Catch::Matchers::Equals;

namespace {

// 4 nodes of 4 GPUs at 10 GB/s, a network card of 1 GB/s for every two GPUs.
Cluster four_by_four(NodeLink link = NodeLink::NvSwitch) {
  Cluster c;
  c.nodes = 4;
  c.gpus_per_node = 4;
  c.node_link = link;
  c.node_bandwidth = BytesPerSecond(10e9);
  c.nics_per_node = 2;
  c.nic_bandwidth = BytesPerSecond(1e9);
  c.network = NetworkDescription{};
  return c;
}

std::vector<std::string> route(const Cluster& cluster, int from, int to) {
  const Network network(cluster);
  std::vector<int> links;
  network.route(from, to, links);
  std::vector<std::string> names;
  for (int link : links) names.push_back(network.links()[static_cast<std::size_t>(link)].name);
  return names;
}

double bandwidth(const Cluster& cluster, const std::string& name) {
  const Network network(cluster);
  for (const Link& link : network.links())
    if (link.name == name) return link.bandwidth.value();
  return 0;
}

using Route = std::vector<std::string>;

}  // namespace

TEST_CASE("a network without switches: NVLink inside nodes, network cards between them") {
  const Cluster c = four_by_four();
  CHECK_THAT(route(c, 0, 3), Equals(Route{"nvlink 0 up", "nvlink 3 down"}));
  // GPUs 0 and 1 of a node share its first card: GPU 1 uses card 0, GPU 14 the second one of node 3, 3 x 2 + 1.
  CHECK_THAT(route(c, 1, 14), Equals(Route{"nic 0 up", "nic 7 down"}));
  CHECK(Network(c).links().size() == 2 * (16 + 8));
}

TEST_CASE("switches between nodes carry what is below them over their oversubscription") {
  Cluster c = four_by_four();
  c.network->fabric = {{"leaf", 2, 2}, {"pod", 4, 1}};  // the pod joins all nodes: it has no uplinks
  CHECK_THAT(route(c, 0, 4), Equals(Route{"nic 0 up", "nic 2 down"}));
  CHECK_THAT(route(c, 0, 8), Equals(Route{"nic 0 up", "leaf 0 up", "leaf 1 down", "nic 4 down"}));
  CHECK(bandwidth(c, "leaf 0 up") == 2e9);  // 2 nodes x 2 cards x 1 GB/s / 2
  c.network->fabric = {{"leaf", 1, 1}, {"pod", 2, 4}};
  CHECK_THAT(route(c, 0, 4), Equals(Route{"nic 0 up", "leaf 0 up", "leaf 1 down", "nic 2 down"}));
  CHECK_THAT(route(c, 0, 8),
             Equals(Route{"nic 0 up", "leaf 0 up", "pod 0 up", "pod 1 down", "leaf 2 down", "nic 4 down"}));
  CHECK(bandwidth(c, "pod 1 down") == 1e9);  // 2 leaves x 2 GB/s / 4
}

TEST_CASE("rails join network cards of the same number, others meet at the spine") {
  Cluster c = four_by_four();
  c.network->fabric = {{"leaf", 8, 1}};  // more nodes than there are
  c.network->rails = true;
  CHECK_THAT(route(c, 0, 4), Equals(Route{"nic 0 up", "nic 2 down"}));
  CHECK_THAT(route(c, 0, 6), Equals(Route{"nic 0 up", "leaf 0 up", "leaf 1 down", "nic 3 down"}));
  CHECK(bandwidth(c, "leaf 1 up") == 4e9);  // the second card of each of 4 nodes
  c.network->fabric = {{"leaf", 2, 1}, {"pod", 2, 1}};
  c.network->fabric[1].nodes = 4;
  CHECK_THAT(route(c, 0, 12), Equals(Route{"nic 0 up", "leaf 0 up", "leaf 2 down", "nic 6 down"}));
}

TEST_CASE("PCIe: GPUs below one switch do not use its link to the root") {
  Cluster c = four_by_four(NodeLink::Pcie);
  CHECK_THAT(route(c, 0, 3), Equals(Route{"pcie 0 up", "pcie 3 down"}));
  c.network->gpus_per_switch = 2;
  CHECK_THAT(route(c, 0, 1), Equals(Route{"pcie 0 up", "pcie 1 down"}));
  CHECK_THAT(route(c, 0, 3), Equals(Route{"pcie 0 up", "switch 0 up", "switch 1 down", "pcie 3 down"}));
  CHECK(bandwidth(c, "switch 0 up") == 10e9);  // as a GPU's
  // A card for the two GPUs of a switch is at the switch; one for all GPUs is at the root.
  CHECK_THAT(route(c, 0, 4), Equals(Route{"pcie 0 up", "nic 0 up", "nic 2 down", "pcie 4 down"}));
  c.nics_per_node = 1;
  CHECK_THAT(route(c, 0, 4),
             Equals(Route{"pcie 0 up", "switch 0 up", "nic 0 up", "nic 1 down", "switch 2 down", "pcie 4 down"}));
}

TEST_CASE("NVLink pairs: others in the node go over PCIe") {
  Cluster c = four_by_four(NodeLink::NvLinkPairs);
  c.network->pcie_bandwidth = BytesPerSecond(8e9);
  c.network->gpus_per_switch = 2;
  CHECK_THAT(route(c, 2, 3), Equals(Route{"nvlink 2 up", "nvlink 3 down"}));
  CHECK_THAT(route(c, 1, 2), Equals(Route{"pcie 1 up", "switch 0 up", "switch 1 down", "pcie 2 down"}));
  CHECK_THAT(route(c, 1, 4), Equals(Route{"pcie 1 up", "nic 0 up", "nic 2 down", "pcie 4 down"}));
}

TEST_CASE("several network cards of a GPU count as one") {
  Cluster c = four_by_four();
  c.nics_per_node = 8;
  CHECK(bandwidth(c, "nic 15 up") == 2e9);  // 16 GPUs, 2 cards each
}

TEST_CASE("slow parts slow their links, a shared card is as slow as the slowest says") {
  Cluster c = four_by_four();
  c.network->slow = {{{1}, {}, .5, 1, 1}, {{}, {3}, .8, .25, .5}};
  CHECK(gpu_speeds(c)[4] == GpuSpeed{.5, 1, 1});
  CHECK(gpu_speeds(c)[2] == GpuSpeed{1, 1, .5});  // the card of GPU 3
  CHECK(bandwidth(c, "nic 1 down") == .5e9);
  CHECK(bandwidth(c, "nvlink 3 up") == 2.5e9);
  CHECK(bandwidth(c, "nvlink 2 up") == 10e9);
}

namespace {

const std::string cluster_text = R"({
  "name": "c", "nodes": 6, "gpus_per_node": 4,
  "device": {"name": "x", "memory": "8 GiB", "memory_bandwidth": "100 GB/s"},
  "node_link": "LINK", "node_bandwidth": "10 GB/s", "nics_per_node": 2, "nic_bandwidth": "10 Gb/s",
  "network": NETWORK
})";

std::string loaded(const std::string& network, const std::string& link = "pcie") {
  const test::TemporaryFolder folder;
  std::string text = cluster_text;
  text.replace(text.find("LINK"), 4, link);
  text.replace(text.find("NETWORK"), 7, network);
  folder.write("c.json", text);
  WorkloadDefaults defaults;
  FilesRead files;
  try {
    load_cluster("c.json", defaults, files);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("what a network section may say") {
  CHECK(loaded("{}") == "accepted");
  CHECK(loaded(R"({"fabric": [{"name": "leaf", "nodes": 3}, {"name": "pod", "nodes": 12}], "rails": true})") ==
        "accepted");
  CHECK(loaded(R"({"fabric": [{"name": "leaf", "nodes": 4}]})") ==
        "c.json:5:52: /network/fabric/0/nodes: 6 nodes do not fill switches of 4, expected a divisor or at least as "
        "many");
  CHECK(loaded(R"({"fabric": [{"name": "leaf", "nodes": 2}, {"name": "pod", "nodes": 3}]})") ==
        "c.json:5:81: /network/fabric/1/nodes: 3, expected a multiple of the 2 nodes of the level before it");
  CHECK(loaded(R"({"rails": true})") ==
        "c.json:5:24: /network/rails: rails without switches, expected \"fabric\" with at least one level");
  CHECK(loaded(R"({"pcie": {"bandwidth": "8 GB/s"}})") ==
        "c.json:5:37: /network/pcie/bandwidth: given twice, expected node_bandwidth alone where node_link is pcie");
  CHECK(loaded(R"({"pcie": {"gpus_per_switch": 3}})") ==
        "c.json:5:43: /network/pcie/gpus_per_switch: 3, expected a divisor of the 4 GPUs of a node");
  CHECK(loaded("{}", "nvlink_pairs") ==
        "c.json:5:14: /network: NVLink joins pairs only, expected \"pcie\" for the others");
  CHECK(loaded(R"({"slow": [{"compute_speed": 0.5}]})") ==
        "c.json:5:24: /network/slow/0: nothing is slow, expected \"nodes\" or \"gpus\"");
  CHECK(loaded(R"({"slow": [{"nodes": [6]}]})") ==
        "c.json:5:35: /network/slow/0/nodes/0: expected a whole number from 0 to 5, got the number 6");
  CHECK(loaded(R"({"slow": [{"nodes": [1], "nic_speed": 0}]})") ==
        "c.json:5:52: /network/slow/0/nic_speed: expected at least 1e-06, got 0");
}

// SPDX-License-Identifier: Apache-2.0
// Shipped clusters against what their chips and links are made of, and their costs against what a pair of GPUs has.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "models/files/load.hpp"
#include "models/price/collective_price.hpp"

using namespace dovetail;

namespace {

// By architecture whitepapers and data sheets; the clock is that of the stated peak.
struct Chip {
  std::string cluster;
  double multiprocessors, gigahertz, flops_a_cycle;  // of bf16, in all tensor or matrix cores of a multiprocessor
  double memory_bits, gigabits_a_pin;
  double links, gigabytes_a_link;  // a second and direction
  int gpus, cards;
  double card_gigabits;
};

Cluster shipped(const std::string& name) {
  FilesRead files;
  WorkloadDefaults defaults;
  return load_cluster(name, defaults, files);
}

// Brought to the hardware of the cluster.
Shared<Calibration> costs_of(const std::string& name) {
  FilesRead files;
  ExperimentRequest request;
  request.cluster = name;
  request.model = "mixtral-8x7b";
  return load_parts(request, files).calibration;
}

// A collective of n among ranks of one node.
Seconds inside_node(const std::string& cluster, Collective collective, int ranks, Bytes n) {
  const ResourceTime time =
      find_cost(*costs_of(cluster), collective, {{ranks, 1}, 0, shipped(cluster).gpus_per_node}).of(n);
  return time.fixed + time.busy;
}

constexpr Bytes mebi(1 << 20);

}  // namespace

TEST_CASE("rates of shipped clusters are those that their chips, memories and links give") {
  const std::vector<Chip> chips{// 4 tensor cores of 256 multiply-adds; 5 stacks of HBM2e; NVLink 3
                                {"dgx-a100-80gb", 108, 1.41, 2048, 5120, 3.186, 12, 25, 8, 8, 200},
                                // 4 tensor cores of 512; 5 stacks of HBM3; NVLink 4
                                {"hgx-h100", 132, 1.83, 4096, 5120, 5.234, 18, 25, 8, 8, 200},
                                {"hgx-h100-4", 132, 1.83, 4096, 5120, 5.234, 18, 25, 4, 4, 400},
                                {"hgx-h800", 132, 1.83, 4096, 5120, 5.234, 8, 25, 8, 8, 400},
                                // 4 matrix cores of 256; 8 stacks of HBM3; 7 links of Infinity Fabric
                                {"mi300x-8", 304, 2.1, 2048, 8192, 5.2, 7, 64, 8, 8, 400},
                                // 4 matrix cores of 512; 8 stacks of HBM3E, whose 8.19 TB/s AMD rounds to 8
                                {"mi355x-8", 256, 2.4, 4096, 8192, 8, 7, 76.8, 8, 8, 400}};
  for (const Chip& chip : chips) {
    INFO(chip.cluster);
    const Cluster c = shipped(chip.cluster);
    CHECK(c.device.peak.at(DType::Bf16).value() ==
          Approx(chip.multiprocessors * chip.gigahertz * 1e9 * chip.flops_a_cycle).epsilon(.007));
    CHECK(c.device.memory_bandwidth.value() == Approx(chip.memory_bits / 8 * chip.gigabits_a_pin * 1e9).epsilon(.025));
    CHECK(c.node_bandwidth.value() == Approx(chip.links * chip.gigabytes_a_link * 1e9));
    CHECK(c.device.multiprocessors == chip.multiprocessors);
    CHECK(c.gpus_per_node == chip.gpus);
    CHECK(c.nics_per_node == chip.cards);
    CHECK(c.nic_bandwidth.value() == Approx(chip.card_gigabits * 1e9 / 8));
  }
  // Its tensor cores are held below what clock and multiprocessors would give: 78 x 1.98 GHz x 4096 are 633 TFLOP/s.
  const Cluster h20 = shipped("hgx-h20");
  CHECK(h20.device.peak.at(DType::Bf16).value() == Approx(148e12));
  CHECK(h20.device.memory_bandwidth.value() == Approx(6144 / 8 * 5.2e9).epsilon(.005));
  CHECK(h20.node_bandwidth.value() == Approx(18 * 25e9));
}

TEST_CASE("fp8 has twice the rate of bf16 on every shipped cluster that has it, and fp16 the same") {
  for (const std::string& name : known_names("clusters")) {
    INFO(name);
    const auto peak = shipped(name).device.peak;
    if (peak.contains(DType::Bf16)) CHECK(peak.at(DType::Fp16) == peak.at(DType::Bf16));
    if (peak.contains(DType::Fp8)) CHECK(peak.at(DType::Fp8) / peak.at(DType::Bf16) == Approx(2).epsilon(.002));
  }
}

TEST_CASE("two GPUs of a full mesh exchange at the rate of their own link, and two behind a switch at more") {
  const auto rate = [](const std::string& cluster) {
    return 256 * mebi / inside_node(cluster, Collective::Send, 2, 256 * mebi);
  };
  const auto within = [&](const std::string& cluster, double gigabytes) {
    INFO(cluster << " " << rate(cluster).value());
    CHECK(rate(cluster).value() < gigabytes * 1e9);
    CHECK(rate(cluster).value() > gigabytes * .6e9);
  };
  within("mi300x-8", 64);
  within("mi355x-8", 76.8);
  within("hgx-h100-4", 150);  // 6 of 18 links
  within("hgx-h800", 200);
  within("hgx-h100", 450);
}

TEST_CASE("in a full mesh of 8, fewer GPUs take the time of all with a buffer as much larger") {
  for (const char* name : {"mi300x-8", "mi355x-8"})
    for (const auto collective :
         {Collective::AllToAll, Collective::AllGather, Collective::ReduceScatter, Collective::AllReduce}) {
      INFO(name << " " << name_in(collective_names, collective));
      const double all = inside_node(name, collective, 8, 64 * mebi).value();
      CHECK(inside_node(name, collective, 4, 32 * mebi).value() == Approx(all).epsilon(.02));
      CHECK(inside_node(name, collective, 2, 16 * mebi).value() == Approx(all).epsilon(.02));
    }
}

TEST_CASE("all-reduces of 8 GPUs are as fast as others have seen them") {
  const auto bus = [](const std::string& cluster, Bytes n) {
    return 2 * 7. / 8 * n.value() / inside_node(cluster, Collective::AllReduce, 8, n).value();
  };
  CHECK(bus("mi300x-8", 1024 * mebi) == Approx(313.92e9).epsilon(.01));  // Azure ND MI300X v5: a point of the table
  CHECK(bus("hgx-h800", 512 * mebi) == Approx(215e9).epsilon(.1));       // NVIDIA/nccl issue 1374: not used by it
}

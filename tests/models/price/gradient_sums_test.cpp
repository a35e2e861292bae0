// SPDX-License-Identifier: Apache-2.0
// Steps whose longest part is a sum of gradients: over nodes that share few network cards, and by a log of small
// messages.
#include <catch2/catch.hpp>

#include "models/files/load.hpp"
#include "models/files/nccl_tests.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/price/cost_ranges.hpp"
#include "models/price/price.hpp"
#include "models/price/sizes_used.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;

namespace {

// Four layers of 201 M parameters, whose gradients in fp32 are four buffers of 805 MB.
constexpr Bytes summed(4 * 805306368.);
constexpr auto model = R"({"name": "dense-4", "layers": 4, "hidden": 4096, "experts": 0, "dense_hidden": 16384,
  "expert_kind": "ffn", "attention": {"heads": 32, "kv_heads": 32, "head_size": 128}})";
// A100s, of which eight share four cards of 25 GB/s.
constexpr auto few_cards = R"({"name": "few-cards", "nodes": 2, "gpus_per_node": 8, "device": {"name": "A100",
  "memory": "80 GiB", "memory_bandwidth": "2039 GB/s", "peak": {"bf16": "312 TFLOP/s", "fp32": "19.5 TFLOP/s"}},
  "node_link": "nvswitch", "node_bandwidth": "300 GB/s", "nics_per_node": 4, "nic_bandwidth": "200 Gb/s",
  "calibration": "ndv4", "default_workload": {"dtype": "bf16"}})";

Experiment data_parallel(const std::string& cluster, int nodes, std::vector<std::string> set = {}) {
  const test::TemporaryFolder folder;
  folder.write("model.json", model);
  folder.write("cluster.json", few_cards);
  ExperimentRequest request;
  request.cluster = cluster;
  request.model = "model.json";
  request.nodes = nodes;
  request.set = std::move(set);
  for (const char* each : {"workload.extent=layers", "workload.batch=1", "workload.sequence=512",
                           "workload.gradients=fp32", "parallelism.mp=1"})
    request.set.emplace_back(each);
  FilesRead files;
  std::vector<std::string> notes;
  return load_experiment(request, files, notes);
}

Seconds time_of_sums(const Experiment& e) {
  const auto schedule = std::make_shared<const Schedule>(build_schedule(e, Plan{}));
  const PricedSchedule priced = price(schedule, e);
  Seconds sum;
  for (const OpId i : schedule->ops.ids())
    if (schedule->ops[i].collective() == Collective::AllReduce) sum += priced.duration[i];
  return sum;
}

// As nccl-tests count it.
double bus_bandwidth(const Experiment& e) {
  return 2 * (1 - 1. / e.cluster.gpus()) * (summed / time_of_sums(e)).value();
}

Experiment by_small_messages() {
  Experiment e = data_parallel("dgx-h100", 1);
  FilesRead files;
  const auto runs = read_nccl_tests(DOVETAIL_TEST_DATA "/nccl-tests/small-messages.txt", files);
  Calibration fitted = load_calibration("dgx-h100", files);
  merge_nccl_tests(fitted, runs, {}, {});
  e.calibration = std::move(fitted);
  return e;
}

}  // namespace

TEST_CASE("a sum over nodes that share four cards of 25 GB/s keeps below what a ring can reach") {
  CHECK(bus_bandwidth(data_parallel("cluster.json", 2)) == Approx(90e9).epsilon(.02));  // 93 were measured
  CHECK(bus_bandwidth(data_parallel("cluster.json", 4)) == Approx(90e9).epsilon(.02));
  CHECK(bus_bandwidth(data_parallel("cluster.json", 16)) == Approx(90e9).epsilon(.02));
  CHECK(bus_bandwidth(data_parallel("cluster.json", 1)) > 200e9);
  // Trees between two nodes, where the switch adds up, send about half of what a ring does.
  CHECK(bus_bandwidth(data_parallel("cluster.json", 2, {"cluster.nvls=true"})) == Approx(169e9).epsilon(.02));
}

TEST_CASE("small messages say what a large sum starts with, and the base how fast it is") {
  const Experiment usual = data_parallel("dgx-h100", 1), fitted = by_small_messages();
  CHECK(time_of_sums(fitted) / time_of_sums(usual) == Approx(1).epsilon(.05));
  const auto notes = sizes_outside(build_schedule(fitted, Plan{}), fitted);
  REQUIRE(notes.size() == 1);
  CHECK_THAT(
      notes[0],
      Catch::EndsWith("all_reduce (intra) measured from 8 B to 64 KiB, and used up to 768 MiB: beyond them it has the "
                      "rate of its base"));
  CHECK(sizes_outside(build_schedule(usual, Plan{}), usual).empty());
}

TEST_CASE("a size 12,000 times as large as the largest measured one is known less surely") {
  Experiment e = by_small_messages();
  const CostRanges ranges(*e.calibration);
  const auto cost = static_cast<std::size_t>(
      std::ranges::find(ranges.costs(), "all_reduce inside a node", &UncertainCost::name) - ranges.costs().begin());
  const double distance = std::log10(805306368. / 65536);
  const auto put_off = [&](double ends) {
    Experiment off = e;
    off.calibration = ranges.at_end(cost, ends);
    return time_of_sums(off) / time_of_sums(e);
  };
  CHECK(put_off(1) >= std::pow(tenfold_within, distance));
  CHECK(put_off(-1) <= 1 / std::pow(tenfold_within, distance));
}

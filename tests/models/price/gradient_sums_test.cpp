// Steps whose longest part is a sum of gradients over nodes that share few network cards.
#include <catch2/catch.hpp>

#include "models/files/load.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
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

}  // namespace

TEST_CASE("a sum over nodes that share four cards of 25 GB/s keeps below what a ring can reach") {
  CHECK(bus_bandwidth(data_parallel("cluster.json", 2)) == Approx(90e9).epsilon(.02));  // 93 were measured
  CHECK(bus_bandwidth(data_parallel("cluster.json", 4)) == Approx(90e9).epsilon(.02));
  CHECK(bus_bandwidth(data_parallel("cluster.json", 16)) == Approx(90e9).epsilon(.02));
  CHECK(bus_bandwidth(data_parallel("cluster.json", 1)) > 200e9);
  // Trees between two nodes, where the switch adds up, send about half of what a ring does.
  CHECK(bus_bandwidth(data_parallel("cluster.json", 2, {"cluster.nvls=true"})) == Approx(169e9).epsilon(.02));
}

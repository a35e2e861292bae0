// SPDX-License-Identifier: Apache-2.0
// Every value of the hardware counts: twice as much of it makes the step of every shipped cluster faster, or at least
// not slower, and half as much slower; or a note says why not.
#include "models/price/hardware.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>

#include "bench/pipeline/hardware_notes.hpp"
#include "models/base/json/quantity.hpp"
#include "models/network/schedule_classes.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/price/collective_price.hpp"
#include "models/price/price.hpp"
#include "models/question/fields.hpp"
#include "models/time/analytic_backend.hpp"

using namespace dovetail;
using namespace dovetail::bench;

namespace {

struct Answer {
  Seconds step;
  std::vector<std::string> notes;
};

Answer ask(const std::string& cluster, const std::vector<std::string>& set) {
  ExperimentRequest request;
  request.cluster = cluster;
  request.model = "mixtral-8x7b";
  request.set = set;
  request.set.emplace_back("workload.layers=1");
  FilesRead files;
  std::vector<std::string> notes;
  Answer answer;
  const Experiment e = load_experiment(request, files, notes);
  add_hardware(e, {request, files, "analytic"}, answer.notes);
  const auto schedule = std::make_shared<const Schedule>(split_by_class(e, build_schedule(e, Plan{})));
  for (const Interval& op : AnalyticBackend().run(price(schedule, e)).ops)
    answer.step = std::max(answer.step, op.finish);
  return answer;
}

struct Value {
  std::string setting, twice, half;
};

template <class Rate>
Value value_of(const std::string& setting, Rate rate) {
  return {setting, format_quantity(2 * rate), format_quantity(.5 * rate)};
}

std::vector<Value> hardware_of_file(const Cluster& c, DType dtype) {
  return {value_of("cluster.device.memory_bandwidth", c.device.memory_bandwidth),
          value_of(fmt::format("cluster.device.peak.{}", name_in(dtype_names, dtype)), c.device.peak.at(dtype)),
          value_of("cluster.node_bandwidth", c.node_bandwidth),
          value_of("cluster.nic_bandwidth", c.nic_bandwidth),
          {"cluster.nics_per_node", std::to_string(2 * c.nics_per_node), ""}};
}

}  // namespace

TEST_CASE("twice the hardware is faster and half of it slower on every shipped cluster, or a note says why not") {
  for (const std::string& name : known_names("clusters")) {
    FilesRead files;
    WorkloadDefaults defaults;
    const Cluster cluster = load_cluster(name, defaults, files);
    const Answer usual = ask(name, {});
    if (cluster.calibration == "dgx-h100" && name.starts_with("hgx")) continue;  // the costs of another, brought there
    CHECK(usual.notes.empty());
    for (const Value& value : hardware_of_file(cluster, workload_of(defaults).dtype)) {
      INFO(name << " " << value.setting);
      const Answer twice = ask(name, {value.setting + "=" + value.twice});
      CHECK_FALSE(twice.notes.empty());
      // Nothing crosses nodes where there is one, and described links may be the narrower ones.
      const bool may_stay = cluster.nodes == 1 && value.setting.find("nic") != std::string::npos;
      CHECK(twice.step <= usual.step);
      if (!may_stay) CHECK(twice.step < usual.step);
      if (value.half.empty()) continue;
      const Answer half = ask(name, {value.setting + "=" + value.half});
      CHECK(half.step >= usual.step);
      if (!may_stay) CHECK(half.step > usual.step);
    }
  }
}

TEST_CASE("described links count: a narrower one makes the step slower, and a wider one never slower") {
  struct Link {
    std::string cluster, wider, narrower;
  };
  const auto set = [](const std::string& value) { return std::vector<std::string>{"cluster.network." + value}; };
  for (const Link& link : {Link{"dgx-h100-rails", "pcie.bandwidth=126 GB/s", "pcie.bandwidth=31.5 GB/s"},
                           Link{"dgx-h100-rails", "fabric.0.oversubscription=1",
                                "fabric=[{\"name\": \"leaf\", \"nodes\": 2, \"oversubscription\": 4}]"},
                           Link{"dgx-h100-2to1", "fabric.0.oversubscription=1", "fabric.0.oversubscription=4"},
                           Link{"dgx-h100-2to1", "pcie.bandwidth=126 GB/s", "pcie.bandwidth=15 GB/s"},
                           Link{"ndv4-links", "pcie.bandwidth=63 GB/s", "pcie.bandwidth=8 GB/s"}}) {
    INFO(link.cluster << ": " << link.wider << ", " << link.narrower);
    const Seconds usual = ask(link.cluster, {}).step;
    CHECK(ask(link.cluster, set(link.wider)).step <= usual);
    CHECK(ask(link.cluster, set(link.narrower)).step > usual);
  }
}

TEST_CASE("PCIe switches count where messages cross them, or a note says that none does") {
  const auto with = [](std::vector<std::string> set, const std::string& more) {
    if (!more.empty()) set.push_back("cluster.network.pcie." + more);
    return ask("ndv4-links", set);
  };
  // Four GPUs share a card, so that it is at the root and two of them come through a switch.
  const std::vector<std::string> shared{"cluster.nics_per_node=2"};
  const Seconds usual = with(shared, "").step;
  CHECK(with(shared, "switch_bandwidth=63 GB/s").step <= usual);
  CHECK(with(shared, "switch_bandwidth=4 GB/s").step > usual);
  CHECK(with(shared, "gpus_per_switch=1").step <= usual);
  // As shipped each switch has cards of its own, and NVSwitch joins all GPUs of a node.
  const Answer shipped = with({}, "");
  CHECK(shipped.notes.empty());
  for (const std::string set : {"switch_bandwidth=4 GB/s", "gpus_per_switch=4"}) {
    const Answer idle = with({}, set);
    CHECK(idle.step == shipped.step);
    REQUIRE(idle.notes.size() == 1);
    CHECK_THAT(idle.notes[0], Catch::Contains("changes nothing: no message between GPUs of ndv4-links"));
  }
}

TEST_CASE("one node or GPU that is slower makes the step slower") {
  for (const std::string part : {R"({"nodes": [0], "compute_speed": 0.5})", R"({"nodes": [1], "link_speed": 0.5})",
                                 R"({"gpus": [3], "nic_speed": 0.5})", R"({"gpus": [9], "compute_speed": 0.9})"})
    for (const std::string cluster : {"ndv4-links", "dgx-h100-rails"}) {
      INFO(cluster << " " << part);
      CHECK(ask(cluster, {"cluster.network.slow=[" + part + "]"}).step > ask(cluster, {}).step);
    }
}

TEST_CASE("costs scale with the rate that bounds them") {
  FilesRead files;
  std::vector<std::string> notes;
  const auto load = [&](const std::vector<std::string>& set) {
    ExperimentRequest request;
    request.cluster = "dgx-h100";
    request.model = "mixtral-8x7b";
    request.set = set;
    return load_experiment(request, files, notes);
  };
  const Experiment usual = load({});
  const Calibration& c = *usual.calibration;
  CHECK(c.adapted.empty());
  const Experiment faster = load({"cluster.nic_bandwidth=800 Gb/s", "cluster.device.memory_bandwidth=6700 GB/s"});
  const Calibration& f = *faster.calibration;
  REQUIRE(f.collectives.size() == c.collectives.size());
  for (std::size_t i = 0; i < c.collectives.size(); ++i) {
    const double times = c.collectives[i].link == LinkKind::Inter ? .5 : 1;
    CHECK(f.collectives[i].beta.value() == Approx(times * c.collectives[i].beta.value()));
    CHECK(f.collectives[i].alpha == c.collectives[i].alpha);
  }
  CHECK(f.memory.beta.value() == Approx(c.memory.beta.value() / 2));
  CHECK(f.memory.provenance.origin == Origin::Assumed);
  // A product of one row is bound by memory, a large one by the units.
  const KernelTable& usual_gemm = *find_table(c.tables, KernelKind::Gemm, DType::Bf16);
  const KernelTable& faster_gemm = *find_table(f.tables, KernelKind::Gemm, DType::Bf16);
  const auto gain = [&](const KernelShape& shape) { return usual_gemm.seconds(shape) / faster_gemm.seconds(shape); };
  CHECK(gain(gemm_shape(32, 16384, 16384)) > 1.7);
  CHECK(gain(gemm_shape(8192, 8192, 8192)) < 1.02);
  CHECK(faster_gemm.provenance.origin == Origin::Assumed);
}

TEST_CASE("products set by the user are priced by their flops, in the format that he sets") {
  FilesRead files;
  std::vector<std::string> notes;
  ExperimentRequest request;
  request.cluster = "dgx-h100";
  request.model = "mixtral-8x7b";
  request.set = {"calibration.gemms.1.beta=2 fs/flop"};
  const Experiment e = load_experiment(request, files, notes);
  for (const KernelTable& table : e.calibration->tables)
    CHECK((!computes(table.kind()) || table.dtype() == DType::Fp8));
  CHECK(find_table(e.calibration->tables, KernelKind::Experts, DType::Fp8) != nullptr);
  REQUIRE(e.calibration->adapted.size() == 1);
  CHECK(e.calibration->adapted[0] ==
        "calibration.gemms sets products in bf16: the tables of measured shapes of gemm in bf16, attention in bf16, "
        "experts in bf16 no longer count, and these kernels take the time of their flops");
}

TEST_CASE("fp16 follows its own peak, though its kernels were measured in bf16") {
  FilesRead files;
  std::vector<std::string> notes;
  ExperimentRequest request;
  request.cluster = "dgx-h100";
  request.model = "mixtral-8x7b";
  request.set = {"cluster.device.peak.fp16=1978 TFLOP/s"};
  const Calibration c = *load_experiment(request, files, notes).calibration;
  const auto seconds = [&](DType dtype) {
    return find_table(c.tables, KernelKind::Gemm, dtype)->seconds(gemm_shape(8192, 8192, 8192));
  };
  CHECK(seconds(DType::Fp16) < .55 * seconds(DType::Bf16));
  CHECK(find_table(c.tables, KernelKind::Gemm, DType::Bf16)->provenance.origin == Origin::Measured);
}

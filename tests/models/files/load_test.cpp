// SPDX-License-Identifier: Apache-2.0
#include "models/files/load.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "models/base/errors.hpp"
#include "models/files/calibration_file.hpp"
#include "models/plan/program_text.hpp"
#include "models/price/calibration.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using test::TemporaryFolder;

namespace {

struct Loaded {
  Experiment experiment;
  FilesRead files;
  std::vector<std::string> notes;
};

Loaded load(const ExperimentRequest& request) {
  Loaded result;
  result.experiment = load_experiment(request, result.files, result.notes);
  return result;
}

ExperimentRequest mixtral_on(const std::string& cluster) {
  ExperimentRequest request;
  request.cluster = cluster;
  request.model = "mixtral-8x7b";
  return request;
}

}  // namespace

TEST_CASE("A name resolves against data, with the cluster's own calibration and workload") {
  const Loaded a = load(mixtral_on("fsmoe-testbed-a"));
  CHECK(a.experiment.cluster.gpus() == 48);
  CHECK(a.experiment.cluster.device.memory == Bytes(48.0 * (1 << 30)));
  CHECK(a.experiment.cluster.nic_bandwidth == BytesPerSecond(25e9));
  CHECK(a.experiment.cluster.device.peak.at(DType::Fp32) == FlopsPerSecond(38.7e12));
  CHECK(a.experiment.calibration->name == "fsmoe-testbed-a");
  CHECK(a.experiment.workload.sequence == 1024);
  CHECK(a.experiment.workload.dtype == DType::Fp32);
  CHECK(a.experiment.workload.layers == 32);
  CHECK(a.experiment.parallelism.ep == 2);
  CHECK(a.experiment.parallelism.edp == 3);
  CHECK(a.notes.empty());
  CHECK(a.files.size() == 3);
  CHECK(a.files.at("data/clusters/fsmoe-testbed-a.json").find("RTX A6000") != std::string::npos);
}

TEST_CASE("Testbed B trains 7 layers of Mixtral unless told otherwise, and says so") {
  const Loaded b = load(mixtral_on("fsmoe-testbed-b"));
  CHECK(b.experiment.workload.layers == 7);
  CHECK(b.notes == std::vector<std::string>{"fsmoe-testbed-b: 7 of the 32 layers of mixtral-8x7b (as the paper trains "
                                            "it here; all do not fit 11 GB)"});
  ExperimentRequest all = mixtral_on("fsmoe-testbed-b");
  all.set = {"workload.layers=32"};
  CHECK(load(all).experiment.workload.layers == 32);
  CHECK(load(all).notes.empty());
  ExperimentRequest other = mixtral_on("fsmoe-testbed-b");
  other.model = "gpt2-xl-moe";
  CHECK(load(other).experiment.workload.layers == 48);
  CHECK(load(other).notes ==
        std::vector<std::string>{"gpt2-xl-moe: 25 attention heads padded to 28, because mp 4 does not divide them"});
}

TEST_CASE("Another number of nodes changes the default groups with it") {
  ExperimentRequest request = mixtral_on("fsmoe-testbed-b");
  request.nodes = 12;
  const Parallelism p = load(request).experiment.parallelism;
  CHECK(p.dp == 12);
  CHECK(p.ep == 4);
  CHECK(p.edp == 3);
}

TEST_CASE("Groups that are not given fill up the GPUs around those that are") {
  ExperimentRequest request = mixtral_on("fsmoe-testbed-b");  // 32 GPUs
  request.set = {"parallelism.ep=2"};
  CHECK(load(request).experiment.parallelism.edp == 4);
  request.set = {"parallelism.edp=8"};
  CHECK(load(request).experiment.parallelism.ep == 1);
  request.set = {"parallelism.mp=8"};
  CHECK(load(request).experiment.parallelism.dp == 4);
  request.set = {"parallelism.esp=1"};
  CHECK(load(request).experiment.parallelism.ep == 8);
  CHECK(load(request).experiment.parallelism.edp == 4);
}

TEST_CASE("options --set reach into every part, and the last one wins") {
  ExperimentRequest request = mixtral_on("fsmoe-testbed-b");
  request.set = {"workload.batch=2",
                 "workload.batch=4",
                 "cluster.node_bandwidth=20 GB/s",
                 "model.experts=16",
                 "workload.dtype=\"fp32\"",
                 "calibration.memory.alpha=3 us",
                 "workload.phases=forward_only"};
  const Experiment e = load(request).experiment;
  CHECK(e.workload.batch == 4);
  CHECK(e.cluster.node_bandwidth == BytesPerSecond(20e9));
  CHECK(e.model.experts == 16);
  CHECK(e.calibration->memory.alpha == Seconds(3e-6));
  CHECK(e.workload.phases == Phases::ForwardOnly);
  request.model.clear();
  request.set = {"model=gpt2-xl-moe", "calibration=fsmoe-testbed-a"};
  CHECK(load(request).experiment.model.hidden == 1600);
  CHECK(load(request).experiment.calibration->name == "fsmoe-testbed-a");
}

TEST_CASE("attention is the cluster's unless told otherwise, and products are in the workload's format") {
  CHECK(load(mixtral_on("fsmoe-testbed-b")).experiment.workload.attention == AttentionKernel::Eager);
  const Workload usual = load(mixtral_on("dgx-h100")).experiment.workload;
  CHECK(usual.attention == AttentionKernel::Flash);
  CHECK(usual.causal);
  CHECK_FALSE(usual.other_products());
  ExperimentRequest request = mixtral_on("dgx-h100");
  request.set = {"workload.attention=eager", "workload.causal=false", "workload.products=fp8"};
  const Workload given = load(request).experiment.workload;
  CHECK(given.attention == AttentionKernel::Eager);
  CHECK_FALSE(given.causal);
  CHECK(given.other_products() == DType::Fp8);
  request.set = {"workload.products=bf16"};
  CHECK_FALSE(load(request).experiment.workload.other_products());
  request.set = {"workload.products=fp32"};
  CHECK_THROWS_WITH(load(request), Catch::Contains("fp32, expected fp8 or the bf16 of everything else"));
  request = mixtral_on("dgx-a100-40gb");
  request.set = {"workload.products=fp8"};
  CHECK_THROWS_WITH(load(request), Catch::Contains("workload.products=fp8") &&
                                       Catch::Contains("calibration dgx-a100-40gb has no GEMM cost for fp8"));
}

TEST_CASE("An experiment file has comments, paths beside it and parts written out") {
  const TemporaryFolder folder;
  folder.write("runs/mine.json", R"({
    // two nodes of a small machine
    "cluster": "machines/small.json",
    "model": {"name": "tiny", "layers": 2, "hidden": 64, "attention": {"heads": 4, "kv_heads": 2, "head_size": 16},
              "experts": 4, "top_k": 1, "expert_hidden": 128, "expert_kind": "ffn"},
    "workload": {"sequence": 128, "dtype": "fp32"},
    "plan": {"scope": "moe", "forward_degree": 2}
  })");
  folder.write("runs/machines/small.json", R"({
    "name": "small", "nodes": 2, "gpus_per_node": 2,
    "device": {"name": "x", "memory": "8 GiB", "memory_bandwidth": "100 GB/s"},
    "node_link": "pcie", "node_bandwidth": "10 GB/s", "nics_per_node": 1, "nic_bandwidth": "10 Gb/s",
    "calibration": "./costs.json", "default_workload": {"batch": 3, "sequence": 64}
  })");
  folder.write("runs/machines/costs.json", R"({
    "name": "costs", "collectives": [],
    "gemms": [{"dtype": "fp32", "alpha": "1 us", "beta": "1 ps/flop",
               "provenance": {"origin": "measured", "source": "here"}}],
    "memory": {"alpha": "0 s", "beta": "1 ps/B", "provenance": {"origin": "assumed", "source": "guess"}},
    "interference": [{"a": "inter", "b": "intra", "a_speed": 0.5, "b_speed": 0.75,
                      "provenance": {"origin": "fitted", "source": "table 5"}}]
  })");
  ExperimentRequest request;
  request.file = "runs/mine.json";
  const Loaded mine = load(request);
  CHECK(mine.experiment.cluster.name == "small");
  CHECK(mine.experiment.model.name == "tiny");
  CHECK(mine.experiment.calibration->interference.at(0).b_speed == 0.75);
  CHECK(mine.experiment.workload.batch == 3);  // the cluster's
  CHECK(mine.experiment.workload.sequence == 128);
  CHECK(mine.experiment.parallelism.ep == 4);
  CHECK(mine.files.contains("runs/machines/costs.json"));

  SECTION("overlap is interfering unless the file, a setting or the request says that it is ideal") {
    CHECK(mine.experiment.overlap == Overlap::Interfering);
    request.set = {"overlap=ideal"};
    CHECK(load(request).experiment.overlap == Overlap::Ideal);
    request.set = {"overlap=interfering"};
    request.ideal = true;
    CHECK_THROWS_WITH(load(request), Catch::Contains("--ideal contradicts --set overlap=interfering"));
    request.set = {};
    CHECK(load(request).experiment.overlap == Overlap::Ideal);
    request.set = {"overlap=perfect"};
    request.ideal = false;
    CHECK_THROWS_AS(load(request), InputError);
  }
  SECTION("a setting of interference that has no effect is named") {
    request.set = {"overlap=ideal", "calibration.interference=[]"};
    const Loaded ideal = load(request);
    CHECK(std::ranges::count(ideal.notes, "overlap is ideal: calibration.interference has no effect") == 1);
  }
  SECTION("options come before it") {
    request.model = "mixtral-8x7b";
    request.set = {"cluster.nodes=4", "workload.sequence=256"};
    const Experiment e = load(request).experiment;
    CHECK(e.model.layers == 32);
    CHECK(e.cluster.nodes == 4);
    CHECK(e.workload.sequence == 256);
  }
  SECTION("a part that is written out takes --set too") {
    request.set = {"model.hidden=32"};
    CHECK(load(request).experiment.model.hidden == 32);
  }
  SECTION("its plan comes before a system's, --set before both") {
    Plan plan;
    plan.host_sync = true;
    plan.backward_degree = 3;
    request.set = {"plan.forward_degree=4", "plan.gradient_slices=[{\"window\": \"tail\", \"elements\": 5}]"};
    apply_to_plan(request, load(request).experiment, plan);
    CHECK(plan.scope == Scope::Moe);
    CHECK(plan.forward_degree == 4);
    CHECK(plan.backward_degree == 3);
    CHECK(plan.host_sync);
    CHECK(plan.gradient_slices == std::vector<GradientSlice>{{Window::Tail, 0, 5}});
  }
}

TEST_CASE("A plan file gives every knob") {
  const TemporaryFolder folder;
  folder.write(
      "plan.json",
      R"({"backward_degrees": [1, 2], "scope": "block", "pair_order": "experts_first", "delay_weight_gradient": "all",
    "split": "peers", "peer_group": 3, "order": "ready_first", "comm_streams": "dispatch_combine",
    "all_to_all": "two_dimensional", "all_to_all_levels": [2, 3], "all_to_all_implementation": "fused",
    "protocol": "low_latency", "dispatch_wire": "bf16", "combine_wire": "fp8", "encoding": "dense", "scores_at": "experts",
    "grad_sync": "fixed_chunks", "gradient_chunk_bytes": 7, "restore": "s3", "buffers": "double",
    "expert_sharding": "ep_mp", "sharding_repeats": 2, "shadowed_experts": [0, 5], "layout": "rank_major",
    "row_tile": 16, "expert_kernel": "grouped", "shared_experts": "overlapped", "host_sync": true, "one_connection": true,
    "pipeline_schedule": "1f1b", "program": ["0F0 0B0"], "virtual_stages": 3, "micro_batches": 4,
    "recompute": ["moe", "norms"], "zero": 1, "forward_degree": 5, "backward_degree": 6, "sequence_parallel": false})");
  FilesRead files;
  const System system = load_plan("plan.json", files);
  CHECK(system.name == "plan");
  CHECK(system.sequence_parallel == false);
  const Plan& p = system.plan;
  CHECK(p == Plan{.forward_degree = 5,
                  .backward_degree = 6,
                  .backward_degrees = {1, 2},
                  .scope = Scope::Block,
                  .pair_order = PairOrder::ExpertsFirst,
                  .delay_weight_gradient = DelayedWeights::All,
                  .split = Split::Peers,
                  .peer_group = 3,
                  .order = Order::ReadyFirst,
                  .comm_streams = CommStreams::DispatchCombine,
                  .all_to_all = AllToAll::TwoDimensional,
                  .all_to_all_levels = {2, 3},
                  .all_to_all_implementation = AllToAllImplementation::Fused,
                  .protocol = Protocol::LowLatency,
                  .dispatch_wire = Wire::Bf16,
                  .combine_wire = Wire::Fp8,
                  .encoding = Encoding::Dense,
                  .scores_at = ScoresAt::Experts,
                  .grad_sync = GradSync::FixedChunks,
                  .gradient_chunk_bytes = 7,
                  .gradient_slices = {},
                  .restore = Restore::S3,
                  .buffers = Buffers::Double,
                  .expert_sharding = ExpertSharding::EpMp,
                  .sharding_repeats = 2,
                  .shadowed_experts = {0, 5},
                  .layout = Layout::RankMajor,
                  .row_tile = 16,
                  .expert_kernel = ExpertKernel::Grouped,
                  .shared_experts = SharedExperts::Overlapped,
                  .host_sync = true,
                  .one_connection = true,
                  .pipeline_schedule = pipeline_schedule("1f1b"),
                  .program = ListedProgram({read_slots("0F0 0B0")}),
                  .virtual_stages = 3,
                  .micro_batches = 4,
                  .recompute = {Recompute::Norms, Recompute::Moe},
                  .zero = 1});
  CHECK(files.contains("plan.json"));
}

TEST_CASE("Knobs are set as an option names them, and errors name the option") {
  Plan plan;
  set_knobs({"plan.expert_sharding=ep_mp", "plan.forward_degree=4"}, "--alternate", plan);
  Plan expected;
  expected.forward_degree = 4;
  expected.expert_sharding = ExpertSharding::EpMp;
  CHECK(plan == expected);
  const auto fault = [](const std::string& setting) -> std::string {
    Plan unchanged;
    try {
      set_knobs({setting}, "--alternate", unchanged);
    } catch (const InputError& error) {
      return error.what();
    }
    return "none";
  };
  CHECK_THAT(fault("plan.zero"), Catch::StartsWith("--alternate plan.zero: expected plan.KNOB=VALUE"));
  CHECK_THAT(fault("plan.=1"), Catch::StartsWith("--alternate plan.=1: expected plan.KNOB=VALUE"));
  CHECK_THAT(fault("zero=1"), Catch::StartsWith("--alternate zero=1: expected plan.KNOB=VALUE"));
  CHECK_THAT(fault("plan.expert_sharding=ep_m"), Catch::StartsWith("--alternate plan.expert_sharding=ep_m: "));
  CHECK_THAT(fault("plan.expert_shardin=ep"), Catch::StartsWith("--alternate plan.expert_shardin=ep: "));
}

TEST_CASE("Kernels with rates or a factor of their own return from a calibration file") {
  Calibration written = *load(mixtral_on("fsmoe-testbed-b")).experiment.calibration;
  KernelCost by_work, by_price;
  by_work.alpha = Seconds(3e-6);
  by_work.rates = WorkRates{SecondsPerFlop(1e-12), SecondsPerFlop(2e-12), SecondsPerByte(3e-12), SecondsPerByte(4e-12)};
  by_price.phase = Phase::Backward;
  by_price.factor = 1.5;
  by_work.provenance = by_price.provenance = {Origin::Measured, "a test"};
  written.kernels = {by_work, by_price};
  const TemporaryFolder folder;
  const std::string text = to_calibration_file(written, nlohmann::ordered_json::object());
  ExperimentRequest request = mixtral_on("fsmoe-testbed-b");
  folder.write("own.json", text);
  request.calibration = "./own.json";
  const Loaded loaded = load(request);
  const std::vector<KernelCost>& read = loaded.experiment.calibration->kernels;
  REQUIRE(read.size() == 2);
  REQUIRE(read[0].rates);
  CHECK(read[0].alpha.value() == Approx(3e-6));
  CHECK(read[0].rates->products.value() == Approx(1e-12));
  CHECK(read[0].rates->attention.value() == Approx(2e-12));
  CHECK(read[0].rates->outputs.value() == Approx(3e-12));
  CHECK(read[0].rates->memory.value() == Approx(4e-12));
  CHECK(!read[1].rates);
  CHECK(read[1].factor == 1.5);
  std::string both = text;
  both.replace(both.find("\"factor\""), 8,
               "\"rates\": {\"products\": \"1 fs/flop\", \"attention\": \"1 fs/flop\", "
               "\"outputs\": \"1 ps/B\", \"memory\": \"1 ps/B\"}, \"factor\"");
  folder.write("both.json", both);
  request.calibration = "./both.json";
  CHECK_THROWS_WITH(load(request), Catch::Contains("expected one of both"));
}

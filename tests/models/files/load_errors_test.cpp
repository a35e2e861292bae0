// SPDX-License-Identifier: Apache-2.0
// Bad input is one line with its place, exactly.
#include <catch2/catch.hpp>
#include <functional>

#include "models/base/errors.hpp"
#include "models/files/load.hpp"
#include "models/price/calibration.hpp"
#include "tests/support/experiments.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using test::TemporaryFolder;

namespace {

std::string refusal(const std::function<void()>& load) {
  try {
    load();
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

std::string replaced(std::string text, const std::string& old, const std::string& by) {
  const std::size_t at = text.find(old);
  REQUIRE(at != std::string::npos);
  return text.replace(at, old.size(), by);
}

const std::string cluster_text = R"({
  "name": "c", "nodes": 2, "gpus_per_node": 2,
  "device": {"name": "x", "memory": "8 GiB", "memory_bandwidth": "100 GB/s", "peak": {"fp32": "1 TFLOP/s"}},
  "node_link": "pcie", "node_bandwidth": "10 GB/s",
  "nics_per_node": 1, "nic_bandwidth": "10 Gb/s"
}
)";

const std::string model_text = R"({
  "name": "m", "layers": 2, "hidden": 64,
  "attention": {"heads": 4, "kv_heads": 2, "head_size": 16},
  "experts": 4, "top_k": 1, "expert_hidden": 128, "expert_kind": "ffn"
}
)";

const std::string calibration_text = R"({
  "name": "k",
  "collectives": [
    {"collective": "all_to_all", "link": "inter", "gpus": 4, "alpha": "1 us", "beta": "1 ps/B",
     "provenance": {"origin": "measured", "source": "s"}},
    {"collective": "all_to_all", "link": "inter", "gpus": 8, "alpha": "1 us", "beta": "1 ps/B",
     "provenance": {"origin": "measured", "source": "s"}}
  ],
  "gemms": [
    {"dtype": "fp32", "alpha": "1 us", "beta": "1 ps/flop", "provenance": {"origin": "measured", "source": "s"}}
  ],
  "memory": {"alpha": "0 s", "beta": "1 ps/B", "provenance": {"origin": "assumed", "source": "s"}},
  "interference": [
    {"a": "inter", "b": "intra", "a_speed": 0.5, "b_speed": 0.75, "provenance": {"origin": "fitted", "source": "s"}}
  ]
}
)";

struct BadFile {
  std::string old, by, message;
};

void check_refusals(const std::string& text, const std::vector<BadFile>& table,
                    const std::function<void(const std::string&, FilesRead&)>& load) {
  const TemporaryFolder folder;
  FilesRead files;
  folder.write("f.json", text);
  CHECK(refusal([&] { load("f.json", files); }) == "accepted");
  for (const BadFile& bad : table) {
    folder.write("f.json", bad.old.empty() ? bad.by : replaced(text, bad.old, bad.by));
    CHECK(refusal([&] { load("f.json", files); }) == bad.message);
  }
}

}  // namespace

TEST_CASE("A bad cluster file is refused") {
  const std::vector<BadFile> table{
      {"\"nodes\"", "\"nodez\"", "f.json:2:16: /nodez: unknown key \"nodez\", did you mean \"nodes\"?"},
      {"\"nodes\": 2, ", "", "f.json:1:1: missing key \"nodes\", expected a whole number"},
      {"\"nodes\": 2", "\"nodes\": 0", "f.json:2:25: /nodes: expected at least 1, got 0"},
      {"\"nodes\": 2", "\"nodes\": -2", "f.json:2:25: /nodes: expected at least 1, got -2"},
      {"\"nodes\": 2", "\"nodes\": 2.5", "f.json:2:25: /nodes: expected a whole number, got the number 2.5"},
      {"\"nodes\": 2", "\"nodes\": \"2\"", "f.json:2:25: /nodes: expected a whole number, got the string \"2\""},
      {"\"nodes\": 2", "\"nodes\": 1000000",
       "f.json:2:25: /nodes: 1000000 nodes of 2 GPUs are 2000000 GPUs, expected at most 1048576"},
      {"\"nodes\": 2", "\"nodes\": 99999999999999999999",
       "f.json:2:25: /nodes: expected a whole number, got the number 1e+20"},
      {"\"name\": \"c\"", "\"name\": 5", "f.json:2:11: /name: expected a string, got the number 5"},
      {"\"name\": \"c\"", "\"name\": \"\"", "f.json:2:11: /name: expected text, got \"\""},
      {"8 GiB", "8",
       "f.json:3:37: /device/memory: expected an amount of data with unit, such as \"40 GiB\", got "
       "\"8\", which has no unit"},
      {"\"8 GiB\"", "8", "f.json:3:37: /device/memory: expected a string such as \"40 GiB\", got the number 8"},
      {"8 GiB", "8 GiB/s",
       "f.json:3:37: /device/memory: expected an amount of data with unit, such as \"40 GiB\", "
       "got \"8 GiB/s\", which is a bandwidth"},
      {"8 GiB", "8 GIB",
       "f.json:3:37: /device/memory: expected an amount of data with unit, such as \"40 GiB\", got "
       "\"8 GIB\", whose unit \"GIB\" is unknown"},
      {"8 GiB", "nan GiB",
       "f.json:3:37: /device/memory: expected an amount of data with unit, such as \"40 GiB\", "
       "got \"nan GiB\", which is not a finite number"},
      {"8 GiB", "1e308 GB",
       "f.json:3:37: /device/memory: expected an amount of data with unit, such as \"40 GiB\", "
       "got \"1e308 GB\", which is too large"},
      {"8 GiB", "-8 GiB", "f.json:3:37: /device/memory: expected more than zero, got \"-8 GiB\""},
      {"8 GiB", "0 GiB", "f.json:3:37: /device/memory: expected more than zero, got \"0 GiB\""},
      {"\"fp32\"", "\"fp4\"", "f.json:3:87: /device/peak/fp4: unknown key \"fp4\", did you mean \"fp64\"?"},
      {"\"pcie\"", "\"pci\"",
       "f.json:4:16: /node_link: expected \"nvswitch\", \"nvlink_pairs\" or \"pcie\", got the "
       "string \"pci\", did you mean \"pcie\"?"},
      {"10 GB/s", "10 GB",
       "f.json:4:42: /node_bandwidth: expected a bandwidth with unit, such as \"200 Gb/s\", got "
       "\"10 GB\", which is an amount of data"},
      {"", "[]", "f.json:1:1: expected an object, got an empty array"},
  };
  check_refusals(cluster_text, table, [](const std::string& name, FilesRead& files) {
    WorkloadDefaults defaults;
    load_cluster(name, defaults, files);
  });
}

TEST_CASE("A bad model file is refused") {
  const std::vector<BadFile> table{
      {"\"heads\": 4", "\"heads\": 3", "f.json:3:26: /attention/heads: 3, expected a multiple of the 2 kv_heads"},
      {"\"top_k\": 1", "\"top_k\": 5", "f.json:4:26: /top_k: 5, expected at most the 4 experts"},
      {"\"kv_heads\": 2, ", "", "f.json:3:16: /attention: missing key \"kv_heads\""},
      {"\"heads\": 4", "\"kind\": \"latent\", \"heads\": 4",
       "f.json:3:59: /attention/kv_heads: contradicts kind latent"},
      {"\"kv_heads\": 2", "\"kv_heads\": 2, \"q_rank\": 4",
       "f.json:3:54: /attention/q_rank: contradicts kind grouped_query"},
      {"\"top_k\": 1", "\"top_k\": 1, \"first_dense\": 2",
       "f.json:4:44: /first_dense: leaves no MoE layer among the 2 layers"},
      {"\"top_k\": 1", "\"top_k\": 1, \"moe_every\": 3",
       "f.json:4:42: /moe_every: leaves no MoE layer among the 2 layers"},
      {"\"experts\": 4", "\"experts\": 0", "f.json:4:26: /top_k: given, but experts is 0"},
      {R"("experts": 4, "top_k": 1, "expert_hidden": 128)", "\"experts\": 0",
       "f.json:1:1: missing key \"dense_hidden\""},
      {R"("top_k": 1, )", "", "f.json:1:1: missing key \"top_k\""},
      {"\"top_k\": 1", "\"top_k\": 1, \"first_dense\": 1", "f.json:1:1: missing key \"dense_hidden\""},
      {"\"top_k\": 1", "\"top_k\": 1, \"dense_hidden\": 8", "f.json:4:45: /dense_hidden: given, but no layer is dense"},
      {"\"top_k\": 1", "\"top_k\": 1, \"shared_experts\": {\"count\": 1}",
       "f.json:4:47: /shared_experts: missing key \"hidden\", expected a whole number"},
      {"\"top_k\": 1", "\"top_k\": 1, \"router\": {\"groups\": 3}",
       "f.json:4:50: /router/groups: 3, which do not divide the 4 experts"},
      {"\"top_k\": 1", "\"top_k\": 3, \"router\": {\"groups\": 4, \"top_groups\": 2}",
       "f.json:4:67: /router/top_groups: 2 of 4 groups hold fewer than the 3 experts of a token"},
      {"\"hidden\": 64", "\"hidden\": null", "f.json:2:39: /hidden: expected a whole number, got null"},
      {"\"hidden\": 64", "\"hidden\": 64, \"hidden\": 65",
       "f.json:2:43: /hidden: duplicate key \"hidden\", already given on line 2"},
      {"\"ffn\"", "true", "f.json:4:66: /expert_kind: expected \"ffn\" or \"gated\", got true"},
      {"\"experts\": 4", "\"experts\": 1e999",
       "f.json:4:14: number too large, expected at most 1.797e308 in magnitude"},
      {"\"ffn\"",
       "\"ffn\",\n\"gate_profile\": {\"forward\": {\"points\": [{\"size\": 2, \"time\": \"1 us\"}, {\"size\": 2, "
       "\"time\": \"2 us\"}]}, \"provenance\": {\"origin\": \"measured\", \"source\": \"s\"}}",
       "f.json:5:79: /gate_profile/forward/points/1/size: 2 after 2, expected ascending sizes"},
      {"\"ffn\"",
       "\"ffn\",\n\"expert_profile\": {\"forward\": {\"points\": [{\"size\": 2, \"time\": \"1 us\"}, {\"size\": 3, "
       "\"time\": \"2 us\"}], \"beta\": \"1 us\"}, \"provenance\": {\"origin\": \"measured\", \"source\": \"s\"}}",
       "f.json:5:110: /expert_profile/forward/beta: given beside points; expected one or the other"},
      {"\"ffn\"",
       "\"ffn\",\n\"expert_profile\": {\"forward\": {\"alpha\": \"1 us\"}, \"provenance\": {\"origin\": \"measured\", "
       "\"source\": \"s\"}}",
       "f.json:5:31: /expert_profile/forward: missing key \"beta\""},
  };
  check_refusals(model_text, table, [](const std::string& name, FilesRead& files) { load_model(name, files); });
}

TEST_CASE("A bad calibration file is refused") {
  const std::string second = "f.json:6:5: /collectives/1: ";
  const std::vector<BadFile> table{
      {"\"gpus\": 8", "\"gpus\": 4", second + "a second cost of all_to_all on inter links, expected one"},
      {"\"gpus\": 8, ", "",
       second + "costs of all_to_all on inter links with and without \"gpus\", expected it in all or none"},
      {"all_to_all", "none",
       "f.json:4:20: /collectives/0/collective: expected \"all_to_all\", \"all_gather\", \"reduce_scatter\", "
       "\"all_reduce\", \"broadcast\", \"reduce\" or \"send\", got the string \"none\""},
      {"\"1 ps/B\"", "\"-1 ps/B\"", "f.json:4:87: /collectives/0/beta: expected no less than zero, got \"-1 ps/B\""},
      {"1 ps/flop", "0 ps/flop", "f.json:10:48: /gemms/0/beta: expected more than zero, got \"0 ps/flop\""},
      {"0.75", "0.25",
       "f.json:14:5: /interference/0: speeds 0.5 and 0.25 add up to less than 1: then one after the "
       "other would be faster"},
      {"0.75", "1.5", "f.json:14:61: /interference/0/b_speed: expected at most 1, got 1.5"},
      {"\"b\": \"intra\"", "\"b\": \"inter\"", "f.json:14:25: /interference/0/b: inter twice, expected two kinds"},
      {"0.75,", "0.75, \"c\": \"intra\", \"c_speed\": 1,",
       "f.json:14:72: /interference/0/c: intra twice, expected three kinds"},
      {"0.75,", "0.75, \"c\": \"copy\", \"c_speed\": 0.5,",
       "f.json:14:5: /interference/0: speeds add up to 1.75, less than the 2 of its kinds without inter"},
      {"0.75,", "0.75, \"messages\": \"by_size\",",
       "f.json:14:79: /interference/0/messages: expected \"simple\" or \"low_latency\", got the string \"by_size\""},
      {"\"measured\"", "\"guessed\"",
       "f.json:5:31: /collectives/0/provenance/origin: expected \"published\", \"measured\", \"fitted\" or "
       "\"assumed\", got the string \"guessed\""},
  };
  check_refusals(calibration_text, table,
                 [](const std::string& name, FilesRead& files) { load_calibration(name, files); });
}

TEST_CASE("A bad system or plan file is refused") {
  const std::vector<BadFile> table{
      {"\"moe\"", "\"mo\"",
       "f.json:1:33: /plan/scope: expected \"layer\", \"moe\", \"block\" or \"batch\", got the "
       "string \"mo\", did you mean \"moe\"?"},
      {"\"scope\"", "\"scop\"", "f.json:1:24: /plan/scop: unknown key \"scop\", did you mean \"scope\"?"},
      {"[1, 2]", "[1, 0]", "f.json:1:85: /planner/degrees/1: expected at least 1, got 0"},
      {"[1, 2]", "[]", "f.json:1:81: /planner/degrees: expected at least 1 elements, got 0"},
  };
  check_refusals(R"({"name": "s", "plan": {"scope": "moe"}, "planner": {"name": "fixed", "degrees": [1, 2]}})", table,
                 [](const std::string& name, FilesRead& files) { load_system(name, files); });
  check_refusals(R"({"zero": 1})", {{"1", "2", "f.json:1:10: /zero: expected at most 1, got 2"}},
                 [](const std::string& name, FilesRead& files) { load_plan(name, files); });
}

namespace {

struct BadRequest {
  ExperimentRequest request;
  std::string message;
};

ExperimentRequest with_set(std::vector<std::string> set) {
  ExperimentRequest request;
  request.cluster = "fsmoe-testbed-b";
  request.model = "mixtral-8x7b";
  request.set = std::move(set);
  return request;
}

std::string refusal(const ExperimentRequest& request) {
  FilesRead files;
  std::vector<std::string> notes;
  return refusal([&] { load_experiment(request, files, notes); });
}

}  // namespace

namespace {

std::string known_clusters() {
  std::string all;
  for (const std::string& name : known_names("clusters")) all += (all.empty() ? "" : ", ") + name;
  return all;
}

}  // namespace

TEST_CASE("Unknown names are refused with the known ones") {
  ExperimentRequest request = with_set({});
  request.cluster = "fsmoe-testbed-c";
  CHECK(refusal(request) ==
        "--cluster fsmoe-testbed-c: unknown cluster \"fsmoe-testbed-c\", did you mean \"fsmoe-testbed-a\"? (known: " +
            known_clusters() + "; or a path that ends in .json)");
  request = with_set({"calibration=x"});
  CHECK(refusal(request).starts_with("--set calibration=x: unknown calibration \"x\" (known: a10g-4, a800-8, "));
  request.cluster = "dgx-h100";
  request.model = "";
  CHECK(refusal(request).starts_with("no model given, expected one of ampipe-base, ampipe-large"));
  request.cluster = "none/here.json";
  CHECK(refusal(request) == "none/here.json: cannot be read: No such file or directory");
  FilesRead files;
  CHECK(refusal([&] { load_system("fsmo", files); }).starts_with("unknown system \"fsmo\", did you mean \"fsmoe\"?"));
}

TEST_CASE("A bad option is refused by its name") {
  for (const auto& [option, message] : std::vector<std::pair<std::string, std::string>>{
           {"workload.batch=abc", "expected a whole number, got the string \"abc\""},
           {"workload.batch=0", "expected at least 1, got 0"},
           {"workload.batch=4.5", "expected a whole number, got the number 4.5"},
           {"workload.batch=", "expected a whole number, got the string \"\""},
           {"workload.bach=4", "unknown key \"bach\", did you mean \"batch\"?"},
           {"worklod.batch=4", "unknown key \"worklod\", did you mean \"workload\"?"},
           {"workload.layers=33", "33, expected 1 to 32 (the layers of mixtral-8x7b)"},
           {"workload.top_k=9", "9, expected 1 to 8 (the experts of mixtral-8x7b)"},
           {"workload.capacity_factor=nan", "expected a number, got the string \"nan\""},
           {"workload.gate.kind=best",
            "expected \"softmax\", \"gshard\", \"sigmoid\", \"x_moe\", \"cosine\", \"expert_choice\" or \"soft_moe\", "
            "got the string \"best\""},
           {"workload.gate.projection=8", "8, but the gate softmax projects nothing"},
           {"workload.routing={\"kind\":\"hot\",\"expert\":8}", "/expert: 8, expected 0 to 7"},
           {"workload.capacity_factor=1e300", "elements of the dispatched rows: 8.39e+306, expected at most 2^53"},
           {"cluster.node_bandwidth=20 Gb",
            "expected a bandwidth with unit, such as \"200 Gb/s\", got \"20 Gb\", which is an amount of data"},
           {"cluster.device.memory.x=1", "no \"x\" inside the string \"11 GiB\""},
           {"calibration.collectives.9.alpha=1 us", "no element \"9\", expected an index below 8"},
           {"parallelism.cp=2",
            "2: context parallelism, which divides the positions of each sample over ranks, is not built yet; expected "
            "1"},
           {"plan.scop=moe", "unknown key \"scop\", did you mean \"scope\"?"},
           {"workload=7", "expected an object, got the number 7"},
           {"workload.batch", "expected key=value, such as workload.batch=4"},
           {"=4", "expected key=value, such as workload.batch=4"}}) {
    CHECK(refusal(with_set({option})) == "--set " + option + ": " + message);
  }
  ExperimentRequest request = with_set({});
  request.nodes = -3;
  CHECK(refusal(request) == "--nodes -3: expected at least 1, got -3");
  CHECK(refusal(with_set({"parallelism.ep=3"})) ==
        "--set parallelism.ep=3: pp 1 x edp 2 x ep 3 x esp 4 = 24 ranks, but the cluster has 32 GPUs");
  CHECK_THAT(refusal(with_set({"parallelism.pp=4194304", "parallelism.ep=2097152", "parallelism.esp=2097152"})),
             Catch::Contains(" ranks, but the cluster has 32 GPUs"));  // 2^64, which no integer holds
  request = with_set({"plan.zero=x"});
  Plan plan;
  CHECK(refusal([&] { apply_to_plan(request, test::testbed_b(), plan); }) ==
        "--set plan.zero=x: expected a whole number, got the string \"x\"");
}

TEST_CASE("A bad experiment file is refused at the place of what is wrong") {
  const std::string text = R"({
  "cluster": "fsmoe-testbed-b",
  "model": "mixtral-8x7b",
  "workload": {"sequence": 128, "layers": 3},
  "parallelism": {"ep": 4}
}
)";
  const std::vector<BadFile> table{
      {"testbed-b", "testbed-bb",
       "f.json:2:14: /cluster: unknown cluster \"fsmoe-testbed-bb\", did you mean \"fsmoe-testbed-b\"? (known: " +
           known_clusters() + "; or a path that ends in .json)"},
      {"\"mixtral-8x7b\"", "7", "f.json:3:12: /model: expected a string or an object, got the number 7"},
      {"\"mixtral-8x7b\"", "{\"name\": \"x\", \"layers\": 0}",
       "f.json:3:36: /model/layers: expected at least 1, got 0"},
      {"\"layers\": 3", "\"layers\": 33",
       "f.json:4:43: /workload/layers: 33, expected 1 to 32 (the layers of mixtral-8x7b)"},
      {"\"sequence\": 128", "\"sequence\": 129",
       "f.json:4:28: /workload/sequence: batch 1 x sequence 129 = 129 tokens do not divide over mp 4 ranks"},
      {"\"ep\": 4", "\"ep\": 3",
       "f.json:5:18: /parallelism: pp 1 x edp 2 x ep 3 x esp 4 = 24 ranks, but the cluster has 32 GPUs"},
      {"\"ep\": 4", "\"esp\": \"4\"", "f.json:5:26: /parallelism/esp: expected a whole number, got the string \"4\""},
      {"\"mixtral-8x7b\",\n  \"workload\": {", "\"llama-3.1-8b\",\n  \"workload\": {\"capacity_factor\": 2, ",
       "f.json:4:35: /workload/capacity_factor: given, but llama-3.1-8b has no experts"},
      {"\"mixtral-8x7b\"", "\"llama-3.1-8b\"",
       "f.json:5:18: /parallelism: ep 4 and esp 1, but llama-3.1-8b has no experts"},
      {"\"parallelism\"", "\"paralelism\"",
       "f.json:5:3: /paralelism: unknown key \"paralelism\", did you mean \"parallelism\"?"},
      {"", "{\"cluster\": ", "f.json:1:13: the file ends too early, expected \"}\" to close the \"{\" of line 1"},
      {"", "", "f.json:1:1: the file is empty, expected a JSON object"},
      {"", "[]", "f.json:1:1: expected an object, got an empty array"},
  };
  check_refusals(text, table, [](const std::string& name, FilesRead& files) {
    ExperimentRequest request;
    request.file = name;
    std::vector<std::string> notes;
    load_experiment(request, files, notes);
  });
}

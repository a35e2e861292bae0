// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/targets.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "bench/cli/commands.hpp"
#include "bench/cli/usage.hpp"
#include "bench/reproduce/tables.hpp"
#include "bench/sweep/sweep_cells.hpp"
#include "bench/sweep/sweep_grid.hpp"
#include "bench/sweep/sweep_line.hpp"
#include "bench/validate/validation_grid.hpp"
#include "models/base/build_info.hpp"
#include "models/files/data_path.hpp"
#include "models/files/load.hpp"
#include "models/files/plan_json.hpp"
#include "models/files/read_schedule.hpp"
#include "models/files/schedule_json.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "models/time/analytic_backend.hpp"
#include "tests/support/lent_data.hpp"

namespace dovetail::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

std::string command_line;

void run(Words words) {
  command_line = fmt::format("dovetail {}", fmt::join(words, " "));
  CLI::App app("", "dovetail");
  bench::prepare_usage(app);
  const auto command = std::ranges::find(bench::commands(), words.front(), &bench::Command::name);
  CLI::App* sub = app.add_subcommand(words.front(), "");
  const bench::Action action = command->declare(*sub);
  bench::prepare_usage(*sub);
  words.insert(words.begin(), "dovetail");
  if (bench::parse(app, words) == bench::Parsed::Command) action(words);
}

std::string data_text(const std::string& name) {
  return JsonFile::read_text(data_directory() / (name + ".json"));
}

std::string test_text(const std::string& name) {
  return JsonFile::read_text(fs::path(DOVETAIL_TEST_DATA) / name);
}

Json data(const std::string& name) {
  return Json::parse(data_text(name), nullptr, true, /*ignore_comments=*/true);
}

void write(const std::string& name, const std::string& text) {
  std::ofstream(name, std::ios::binary) << text;
}

const std::string tiny_model = R"({"name": "tiny", "layers": 3, "hidden": 64,
  "attention": {"heads": 4, "kv_heads": 4, "head_size": 16}, "experts": 8, "top_k": 2,
  "expert_hidden": 128, "expert_kind": "gated", "vocabulary": 1000, "first_dense": 1, "dense_hidden": 256,
  "shared_experts": {"count": 1, "hidden": 128, "gate": true},
  "router": {"scoring": "sigmoid", "groups": 4, "top_groups": 2, "scale": 2.5}})";

std::string profiled_model() {
  Json model = Json::parse(tiny_model);
  model["expert_profile"] = Json::parse(R"({"forward": {"alpha": "10 us", "beta": "2 us"},
    "backward": {"points": [{"size": 1, "time": "10 us"}, {"size": 9, "time": "80 us"}]},
    "provenance": {"origin": "assumed", "source": "made up"}})");
  return model.dump();
}

// --- what the command line does with each ---

const Words systems{"tutel",  "fsmoe",     "deepspeed_moe", "pipemoe", "fastermoe",     "mpipemoe",
                    "ampipe", "tutel_2dh", "fastmoe",       "fairseq", "pipemoe_micro", "pipemoe_lina"};

Words with_results(Words words, Dice& dice) {
  static const Words outputs{"out.json", "out.csv", "out.txt"};
  words.insert(words.end(), {"-q", "-o", dice.pick(outputs)});
  if (dice.one_in(8)) words.insert(words.end(), {"--html", "out.html"});
  return words;
}

void simulate(Words words, Dice& dice) {
  words.insert(words.begin(), "simulate");
  if (std::ranges::find(words, "--plan") == words.end() && std::ranges::find(words, "--system") == words.end())
    words.insert(words.end(), {"--system", dice.pick(systems)});
  words = with_results(std::move(words), dice);
  if (dice.one_in(8)) words.insert(words.end(), {"--trace", "trace.json"});
  run(std::move(words));
}

const Words small{"--cluster", "cluster.json", "--model", "model.json"};

Words small_and(std::initializer_list<std::string> more) {
  Words words = small;
  words.insert(words.end(), more);
  return words;
}

// Real models have many layers, which take time and find nothing.
void use_model(const std::string& file, Dice& dice) {
  Words words{"--cluster", "cluster.json", "--model", file};
  if (!dice.one_in(8)) words.insert(words.end(), {"--set", "workload.layers=3"});
  simulate(std::move(words), dice);
}

void use_cluster(Dice& dice) {
  Words words{"--cluster", "input.json", "--model", "model.json"};
  if (dice.one_in(2)) words.insert(words.end(), {"--nodes", "2"});
  simulate(std::move(words), dice);
}

void use_set(Dice& dice) {
  Words words = small;
  const JsonFile file = JsonFile::read("input.json");
  for (const auto& [key, value] : file.root().items())
    words.insert(words.end(), {"--set", key + "=" + (value.is_string() ? value.get<std::string>() : value.dump())});
  simulate(std::move(words), dice);
}

void use_trace(const std::string& file, Dice& dice) {
  if (dice.one_in(2))
    return simulate(small_and({"--set", R"(workload.routing={"kind": "trace", "trace": ")" + file + "\"}"}), dice);
  run(with_results({"plan", "--online", "--trace", file, "--cluster", "cluster.json", "--model", "model.json"}, dice));
}

void use_state(Dice& /*dice*/) {
  run({"plan", "--online", "--state", "input.json", "--report", "0.5", "--step", "f=1.5", "--cluster",
       "fsmoe-testbed-b", "--model", "mixtral-8x7b", "-q", "-o", "out.json"});
}

void use_sweep_grid(Dice& dice) {
  FilesRead files;
  bench::SweepGrid grid = bench::load_sweep_grid("input.json", files);
  if (grid.backend.starts_with("simgrid")) grid.backend = "analytic";  // SimGrid is for the platforms' child processes
  bench::SweepCells cells(grid);
  const auto count = static_cast<std::size_t>(grid.cells());
  for (const std::size_t cell : {std::size_t{0}, count - 1, dice.below(count)})
    if (const std::string line = cells.line(static_cast<std::int64_t>(cell)); line.find(bench::a_bug) != line.npos)
      throw std::logic_error(line);
}

void use_validation_grid(Dice& /*dice*/) {
  FilesRead files;
  bench::load_validation_grid("input.json", files);
}

void use_config(Dice& dice) {
  Words words{"import", "input.json", "-o", "imported.json"};
  if (dice.one_in(2)) words.insert(words.end(), {"--experts", "8"});
  run(std::move(words));
  use_model("imported.json", dice);
}

void use_log(Dice& dice) {
  Words words{"calibrate", "--base", "dgx-h100", "--nccl-tests", "input.txt", "-q", "-o", "out.json"};
  if (dice.one_in(2)) words.insert(words.end(), {"--collective", "all_reduce", "--link", "inter"});
  run(std::move(words));
}

void use_steps(Dice& /*dice*/) {
  run({"reproduce", "--steps", "input.json", "--draws", "20", "-q", "-o", "out.json"});
}

void use_operators(Dice& /*dice*/) {
  run({"reproduce", "--operators", "input.json", "--draws", "20", "-q", "-o", "out.json"});
}

// Published tables are found by their names among the shipped data, so that the others are lent to a folder.
void use_published(const std::string& id) {
  const std::string name = "published/" + id + ".json";
  const LentData lent(name);
  fs::copy_file("input.json", "data/" + name);
  run({"reproduce", id, "-q", "-o", "out.json"});
}

// --- what to start from ---

std::string cluster_text() {
  Json cluster = data("clusters/fsmoe-testbed-b-links");
  cluster["nodes"] = 2;
  return cluster.dump();
}

// Mutations would meet little but measured points.
std::string without_tables(const std::string& calibration) {
  Json json = data(calibration);
  json.erase("tables");
  return json.dump();
}

Words clusters() {
  Json rails = data("clusters/dgx-h100-rails");
  rails["nodes"] = 2;
  rails["network"]["slow"] = Json::array({{{"nodes", {1}}, {"nic_speed", .5}}});
  return {data_text("clusters/fsmoe-testbed-b"), cluster_text(), rails.dump(), data_text("clusters/ndv4")};
}

Words experiments() {
  Json all{{"cluster", data("clusters/fsmoe-testbed-b-links")},
           {"model", Json::parse(tiny_model)},
           {"calibration", data("calibrations/fsmoe-testbed-b")},
           {"workload", {{"batch", 2}, {"sequence", 256}, {"layers", 2}, {"top_k", 2}, {"capacity_factor", 1.5}}},
           {"parallelism", {{"dp", 4}, {"mp", 2}, {"ep", 4}, {"esp", 1}, {"pp", 1}, {"edp", 2}}},
           {"plan", {{"forward_degree", 2}, {"backward_degree", 2}}},
           {"events", Json::array({{{"at", "1 us"}, {"until", "5 ms"}, {"resource", "inter"}, {"speed", .5}}})}};
  all["cluster"]["nodes"] = 2;
  Json named = all;
  named["cluster"] = "cluster.json";
  named["model"] = "model.json";
  named.erase("calibration");
  named.erase("parallelism");
  named["workload"]["gate"] = {{"kind", "x_moe"}, {"projection", 16}, {"renormalise", true}};
  named["workload"]["routing"] = {{"kind", "zipf"}, {"exponent", 1.2}, {"seed", 3}};
  named["workload"]["capacity_factor"] = 0;
  Json routed = named;
  routed["workload"]["message_sizes"] = "routed";
  routed["workload"]["gate"] = {{"kind", "softmax"}};
  Json stages = named;
  stages["workload"]["capacity_factor"] = 1;
  stages["parallelism"] = {{"pp", 2}, {"count_per_node", 2}};
  stages["plan"] = {{"micro_batches", 2}, {"pipeline_schedule", "1f1b"}};
  return {all.dump(), named.dump(), routed.dump(), stages.dump()};
}

Words settings() {
  return {
      R"({"workload.batch": 4, "workload.sequence": 128, "workload.capacity_factor": 1.5, "workload.top_k": 1})",
      R"({"cluster.nodes": 1, "cluster.gpus_per_node": 4, "cluster.device.memory": "8 GiB"})",
      R"({"model.experts": 16, "model.hidden": 128, "model.expert_hidden": 64, "model.layers": 4})",
      R"({"model.attention.heads": 8, "model.attention.kv_heads": 4, "model.attention.head_size": 8})",
      R"({"parallelism.ep": 4, "parallelism.esp": 1, "parallelism.mp": 1, "parallelism.pp": 1})",
      R"({"parallelism.count_per_node": 2, "workload.layers": 2})",
      R"({"plan.forward_degree": 4, "plan.backward_degree": 2, "plan.order": "ready_first"})",
      R"({"plan.backward_degrees": [1, 2, 4], "plan.gradient_chunk_bytes": 4096, "plan.grad_sync": "fixed_chunks"})",
      R"({"plan.restore": "s1", "plan.buffers": "double"})",
      R"({"plan.shadowed_experts": [0, 3], "parallelism.esp": 1, "plan.forward_degree": 1})",
      R"({"workload.gate": {"kind": "cosine", "projection": 8}, "workload.routing": {"kind": "hot", "share": 0.4}})",
      R"({"plan.micro_batches": 2, "plan.pipeline_schedule": "1f1b", "parallelism.pp": 2, "workload.batch": 4})",
      R"({"plan.all_to_all": "two_dimensional", "plan.protocol": "simple"})",
      R"({"plan.dispatch_wire": "fp8", "plan.zero": 0, "plan.host_sync": true})",
      R"({"events": [{"at": "1 us", "resource": "compute", "speed": 0.5}], "workload.phases": "forward_only"})"};
}

Words plans() {
  Json mix = data("plans/mix");
  mix["scope"] = "moe";
  return {mix.dump(), to_json(Plan{}).dump(),
          R"({"forward_degree": 2, "backward_degrees": [1, 2, 2], "scope": "moe", "grad_sync": "partitioned",
              "gradient_slices": [{"window": "tail", "elements": 36864}]})"};
}

Words sweep_grids() {
  return {data_text("sweeps/degrees"), data_text("sweeps/nic_bandwidth"), R"({"name": "g", "source": "s",
    "backend": "analytic", "base": {"cluster": "cluster.json", "model": "model.json", "nodes": 1},
    "systems": ["tutel", "pipemoe"], "axes": [{"name": "workload.batch", "values": [1, 2]}]})"};
}

Words json_traces() {
  return {data_text("traces/skewed-8-experts"),
          R"({"name": "t", "steps": [{"capacity_factor": 1}, {"batch": 2, "sequence": 64}, {"top_k": 1}]})"};
}

// A result of dovetail sweep and its state files, made by the program itself.
std::string made_by(Words words, const std::string& file) {
  run(std::move(words));
  return JsonFile::read_text(file);
}

std::string cells_text() {
  write("grid.json", sweep_grids().back());
  return made_by({"sweep", "grid.json", "-j", "1", "-q", "-o", "cells.jsonl"}, "cells.jsonl");
}

std::string state_text() {
  return made_by({"plan", "--online", "--state", "state.json", "--step", "f=1.5", "--cluster", "fsmoe-testbed-b",
                  "--model", "mixtral-8x7b", "-q", "-o", "out.json"},
                 "state.json");
}

// A schedule and the timeline that an executor might answer.
std::pair<std::string, std::string> exchange_texts() {
  ExperimentRequest request;
  request.cluster = "cluster.json";
  request.model = "model.json";
  FilesRead files;
  Words notes;
  const Experiment e = load_experiment(request, files, notes);
  const ScheduleFile schedule{e, Plan{}, price_plan(e, Plan{})};
  AnalyticBackend backend;
  TimelineFile timeline;
  timeline.timeline = backend.run(schedule.priced);
  return {to_json(schedule).dump(), to_json(timeline).dump()};
}

FuzzTarget published_target(const std::string& id) {
  return {"published " + id, "input.json", {data_text("published/" + id)}, [id](Dice&) { use_published(id); }, 1};
}

std::vector<FuzzTarget> files_of_experiments() {
  return {
      {"cluster", "input.json", clusters(), use_cluster},
      {"model",
       "input.json",
       {tiny_model, profiled_model(), data_text("models/deepseek-v2"), data_text("models/gpt2-xl-moe"),
        data_text("models/qwen3-30b-a3b")},
       [](Dice& dice) { use_model("input.json", dice); }},
      {"calibration",
       "input.json",
       {data_text("calibrations/fsmoe-testbed-b"), without_tables("calibrations/ndv4"),
        without_tables("calibrations/a800-8")},
       [](Dice& dice) {
         simulate(small_and({"--calibration", "input.json"}), dice);
       }},
      {"experiment", "input.json", experiments(),
       [](Dice& dice) {
         simulate({"--experiment", "input.json"}, dice);
       }},
      {"system",
       "input.json",
       {data_text("systems/tutel"), data_text("systems/fsmoe"), data_text("systems/mpipemoe"),
        data_text("systems/fastermoe")},
       [](Dice& dice) {
         simulate(small_and({"--system", "./input.json"}), dice);
       }},
      {"plan", "input.json", plans(),
       [](Dice& dice) {
         simulate(small_and({"--plan", "input.json"}), dice);
       }},
      {"settings", "input.json", settings(), use_set},
      {"trace", "input.json", json_traces(), [](Dice& dice) { use_trace("input.json", dice); }},
      {"trace as CSV",
       "input.csv",
       {"step,layer,rank,expert,tokens\n0,0,0,0,5\n0,1,3,7,10\n1,0,2,3,40\n",
        "step,layer,rank,peer,bytes\n0,0,0,1,4096\n"},
       [](Dice& dice) { use_trace("input.csv", dice); }},
  };
}

constexpr auto measured_steps = R"({"title": "t", "source": "s", "system": "megatron_lm",
  "question": {"cluster": "dgx-h100", "nodes": 1, "model": "olmoe-1b-7b", "workload.layers": 1, "mbs": 1, "gbs": 8},
  "steps": [{"name": "a", "question": {"tp": 2}, "step": "5 ms", "peak": "9 GiB", "note": "n"},
            {"name": "b", "question": {"plan.recompute": ["moe"]}, "step": "9 ms"}],
  "not_stated": [{"name": "c", "why": "w"}], "notes": ["n"]})";

constexpr auto measured_operators = R"({"title": "t", "source": "s", "cluster": "dgx-h100", "sustained": true,
  "operators": [{"kernel": "gemm", "shape": {"rows": 64, "columns": 64, "inner": 64, "groups": 2}, "time": "5 us"},
                {"kernel": "experts", "shape": {"rows": 64, "experts": 8, "hidden": 64, "inter": 64}, "time": "5 us"},
                {"kernel": "all_reduce", "shape": {"ranks": 16, "bytes": "1 MiB"}, "time": "9 us", "note": "n"},
                {"name": "a", "kernel": "dispatch", "dtype": "fp8", "shape": {"ranks": 16, "tokens": 64, "hidden": 64,
                 "top_k": 2, "experts": 16, "multiprocessors": 20}, "time": "9 us"}], "notes": ["n"]})";

std::vector<FuzzTarget> files_of_commands() {
  return {
      {"sweep grid", "input.json", sweep_grids(), use_sweep_grid},
      {"validation grid",
       "input.json",
       {data_text("validation/host"), data_text("validation/host-held")},
       use_validation_grid},
      {"measured steps", "input.json", {measured_steps}, use_steps},
      {"measured operators", "input.json", {measured_operators}, use_operators},
      {"config of Hugging Face",
       "input.json",
       {test_text("hf/mixtral-8x7b/config.json"), test_text("hf/deepseek-v2/config.json"),
        test_text("hf/gpt2-xl/config.json"), test_text("hf/qwen1.5-moe-a2.7b/config.json"),
        test_text("hf/dbrx/config.json"), test_text("hf/llama-4-scout/config.json"),
        test_text("hf/minimax-m2/config.json")},
       use_config},
      {"log of nccl-tests",
       "input.txt",
       {test_text("nccl-tests/alltoall.txt"), test_text("nccl-tests/all_gather.json")},
       use_log},
      {"state of an online planner", "input.json", {state_text()}, use_state},
      {"cells of a sweep",
       "input.jsonl",
       {cells_text()},
       [](Dice&) {
         run({"sweep", "--merge", "input.jsonl", "-o", "merged.jsonl", "--csv", "merged.csv", "-q"});
       }},
      {"schedule",
       "input.json",
       {exchange_texts().first},
       [](Dice&) { read_schedule(JsonFile::read("input.json")); },
       1},
      {"timeline",
       "input.json",
       {exchange_texts().second},
       [](Dice&) { read_timeline(JsonFile::read("input.json")); },
       1},
  };
}

#if DOVETAIL_HAS_SIMGRID
constexpr auto zone_platform = R"(<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <zone id="all" routing="Full">
    <host id="h0" speed="1Gf"/><host id="h1" speed="1Gf"/><host id="h2" speed="1Gf"/><host id="h3" speed="1Gf"/>
    <link id="l0" bandwidth="10GBps" latency="1us"/>
    <link id="l1" bandwidth="12GBps" latency="0us" sharing_policy="FATPIPE"/>
    <route src="h0" dst="h1"><link_ctn id="l0"/></route>
    <route src="h0" dst="h2"><link_ctn id="l1"/></route>
    <route src="h0" dst="h3"><link_ctn id="l1"/><link_ctn id="l0"/></route>
    <route src="h1" dst="h2"><link_ctn id="l1"/></route>
    <route src="h1" dst="h3"><link_ctn id="l1"/></route>
    <route src="h2" dst="h3" symmetrical="NO"><link_ctn id="l0"/></route>
    <route src="h3" dst="h2" symmetrical="NO"><link_ctn id="l1"/></route>
  </zone>
</platform>
)";
constexpr auto cluster_platform = R"(<?xml version="1.0"?>
<platform version="4.1">
  <zone id="all" routing="Floyd">
    <cluster id="a" prefix="a-" radical="0-1" suffix="" speed="1Gf" bw="125MBps" lat="50us" bb_bw="2GBps" bb_lat="5us"/>
    <cluster id="b" prefix="b-" radical="0,1" suffix=".x" speed="1Gf" bw="1GBps" lat="1us" router_id="rb"/>
    <link id="up" bandwidth="1GBps" latency="10us"/>
    <zoneRoute src="a" dst="b" gw_src="a-a_router" gw_dst="rb"><link_ctn id="up"/></zoneRoute>
  </zone>
</platform>
)";
constexpr auto torus_platform = R"(<?xml version="1.0"?>
<platform version="4.1">
  <cluster id="t" prefix="n" radical="0-3" suffix="" speed="1Gf" bw="10GBps" lat="1us" topology="TORUS" topo_parameters="2,2"/>
</platform>
)";

FuzzTarget platform_target() {
  return {"platform", "input.xml", {zone_platform, cluster_platform, torus_platform}, [](Dice&) {
            run({"simulate", "--cluster", "fsmoe-testbed-b", "--nodes", "1", "--model", "mixtral-8x7b", "--set",
                 "workload.layers=1", "--system", "deepspeed_moe", "--backend", "simgrid-flow", "--platform",
                 "input.xml", "-q", "-o", "out.json"});
          }};
}
#endif

}  // namespace

std::vector<FuzzTarget> fuzz_targets() {
  write("cluster.json", cluster_text());
  write("model.json", tiny_model);
  std::vector<FuzzTarget> targets = files_of_experiments();
  std::ranges::move(files_of_commands(), std::back_inserter(targets));
  // Tables that take long, and those that are read and computed as another one is.
  const Words slow{"fsmoe-table5", "fsmoe-end-to-end", "fsmoe-fig7",    "fsmoe-fig8",
                   "ampipe-56",    "fsmoe-table6",     "tutel-table7b", "tutel-fig5"};
  for (const std::string& id : bench::reproduced_ids())
    if (std::ranges::find(slow, id) == slow.end()) targets.push_back(published_target(id));
#if DOVETAIL_HAS_SIMGRID
  targets.push_back(platform_target());
#endif
  return targets;
}

std::string last_command() {
  return std::exchange(command_line, "");
}

}  // namespace dovetail::test

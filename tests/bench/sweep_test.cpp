// SPDX-License-Identifier: Apache-2.0
// Grids as products of axes, and cells that are neither lost nor computed twice.
#include "bench/sweep/sweep.hpp"

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <sstream>

#include "bench/sweep/sweep_cells.hpp"
#include "bench/sweep/sweep_summary.hpp"
#include "models/base/errors.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using namespace dovetail::bench;
using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

namespace {

constexpr auto small = R"({"name": "small", "backend": "analytic", "systems": ["deepspeed_moe", "tutel"],
  "base": {"cluster": "fsmoe-testbed-b", "model": "mixtral-8x7b", "workload.layers": 1, "plan.micro_batches": 1},
  "axes": [
    {"name": "workload.batch", "values": [1, 2, 2048]},
    {"name": "size", "values": [{"nodes": 2}, {"nodes": 4, "workload.capacity_factor": 2}]},
    {"name": "plan.forward_degree", "values": [1, 2]}]})";

SweepGrid grid_of(const test::TemporaryFolder& folder, const std::string& text) {
  folder.write("grid.json", text);
  FilesRead files;
  return load_sweep_grid("./grid.json", files);
}

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Json header_of(const SweepGrid& grid) {
  Json axes = Json::array();
  for (const SweepAxis& axis : grid.axes) axes.push_back({{"name", axis.name}, {"values", axis.values.size()}});
  return {{"schema_version", "1.2"},       {"kind", "sweep"}, {"name", grid.name},
          {"cells", grid.cells()},         {"axes", axes},    {"systems", grid.systems},
          {"backend", grid.backend},       {"version", "1"},  {"git_revision", "2"},
          {"input_sha256", Json::object()}};
}

std::string run(const SweepGrid& grid, const std::string& output, int workers, Shard shard = {}) {
  run_sweep(grid, header_of(grid), {output, shard, workers, Talk::Quiet});
  return fs::exists(output) ? text_of(output) : "";
}

}  // namespace

TEST_CASE("Points are the product of axes, the last one fastest") {
  const test::TemporaryFolder folder;
  const SweepGrid grid = grid_of(folder, small);
  CHECK(grid.points() == 3 * 2 * 2);
  CHECK(grid.cells() == 24);
  // 7 = 1 * (2 * 2) + 1 * 2 + 1
  const SweepPoint point = grid.point(7);
  CHECK(point.values.dump() ==
        R"({"workload.batch":2,"nodes":4,"workload.capacity_factor":2,"plan.forward_degree":2})");
  CHECK(point.request.cluster == "fsmoe-testbed-b");
  CHECK(point.request.nodes == 4);
  CHECK(point.request.set == std::vector<std::string>{"plan.micro_batches=1", "workload.layers=1", "workload.batch=2",
                                                      "workload.capacity_factor=2", "plan.forward_degree=2"});
}

TEST_CASE("A wrong grid is refused with its place") {
  const test::TemporaryFolder folder;
  const auto refused = [&](const std::string& axes, const std::string& message) {
    CHECK_THROWS_WITH(grid_of(folder, "{\"name\": \"g\", \"systems\": [\"tutel\"], \"axes\": " + axes + "}"),
                      Catch::Contains("./grid.json:1:") && Catch::Contains(message));
  };
  refused(R"([{"name": "batch", "values": [1]}])",
          "expected cluster, model, calibration, nodes, overlap or a dotted path");
  refused(R"([{"name": "nodes", "values": [1, 1]}])", "given twice");
  refused(R"([{"name": "nodes", "values": [1]}, {"name": "x", "values": [{"nodes": 2}]}])",
          "which an earlier axis changes too");
  refused(R"([{"name": "nodes", "values": []}])", "/axes/0/values");
}

TEST_CASE("The first cell of every shipped sweep gives numbers") {
  for (const std::string& name : known_names("sweeps")) {
    INFO(name);
    FilesRead files;
    const SweepGrid grid = load_sweep_grid(name, files);
    CHECK(grid.name == name);
    CHECK_FALSE(grid.description.empty());
    const std::string line = SweepCells(grid).line(0);
    CHECK_THAT(line, Catch::Contains("\"makespan_s\":"));
    CHECK_THAT(line, Catch::Contains("\"overlap\":\"interfering\""));
  }
}

TEST_CASE("A cell does not depend on those computed before it") {
  const test::TemporaryFolder folder;
  const SweepGrid grid = grid_of(folder, small);
  SweepCells after_others(grid);
  for (std::int64_t cell = grid.cells() - 1; cell >= 0; --cell)
    CHECK(after_others.line(cell) == SweepCells(grid).line(cell));
}

TEST_CASE("Cells say how sure they are where costs are drawn, and are as without it else") {
  const test::TemporaryFolder folder;
  SweepGrid grid = grid_of(folder, small);
  const Json without = Json::parse(SweepCells(grid).line(0));
  CHECK_FALSE(without.contains("interval_low_s"));
  grid.draws = 50;
  Json with = Json::parse(SweepCells(grid).line(0));
  CHECK(with["interval_low_s"] < with["makespan_s"]);
  CHECK(with["interval_high_s"] > with["makespan_s"]);
  grid.seed = 1;
  CHECK(Json::parse(SweepCells(grid).line(0))["interval_low_s"] != with["interval_low_s"]);
  with.erase("interval_low_s");
  with.erase("interval_high_s");
  CHECK(with == without);
}

TEST_CASE("A sweep gives the same bytes with any number of processes and shards") {
  const test::TemporaryFolder folder;
  const SweepGrid grid = grid_of(folder, small);
  const std::string one = run(grid, "one.jsonl", 1);
  CHECK(std::count(one.begin(), one.end(), '\n') == 25);
  CHECK(run(grid, "two.jsonl", 2) == one);
  CHECK(run(grid, "s.jsonl", 1, {0, 2}).empty());  // the other one is missing
  CHECK(run(grid, "s.jsonl", 1, {1, 2}) == one);
  for (const auto& file : fs::directory_iterator(".")) CHECK(file.path().extension() != ".part");
}

TEST_CASE("Cells that contradict themselves or the memory say so and end nothing") {
  const test::TemporaryFolder folder;
  const SweepGrid grid = grid_of(folder, small);
  run(grid, "out.jsonl", 1);
  CellIndex index(header_of(grid));
  index.add("out.jsonl");
  const SweepSummary summary =
      summarize(index, grid.systems, {{"workload.batch", 3}, {"size", 2}, {"plan.forward_degree", 2}});
  CHECK(summary.idle_axes.empty());
  CHECK(summary.points == 12);
  CHECK(summary.systems[0].refused == 6);  // deepspeed_moe in two chunks
  CHECK_THAT(summary.first_refusal, Catch::Contains("forward_degree"));
  CHECK(summary.systems[1].refused == 0);
  CHECK(summary.systems[1].too_large == 4);  // batch 2048
  CHECK(summary.systems[1].fits == 8);
  CHECK(summary.systems[1].ratios.size() == 4);  // where both run
}

TEST_CASE("Cells that no device can reach are counted, and the first one is named") {
  const test::TemporaryFolder folder;
  const SweepGrid grid = grid_of(folder, R"({"name": "batches", "backend": "analytic", "systems": ["tutel"],
    "base": {"cluster": "fsmoe-testbed-b", "model": "mixtral-8x7b", "workload.layers": 1},
    "axes": [{"name": "workload.batch", "values": [1, 2]}]})");
  std::string cells = run(grid, "out.jsonl", 1);
  const auto mfu = cells.rfind("\"mfu\":");
  REQUIRE(mfu != std::string::npos);
  cells.replace(mfu, cells.find_first_of(",}", mfu) - mfu, "\"mfu\":1.25");
  folder.write("changed.jsonl", cells);
  CellIndex index(header_of(grid));
  index.add("changed.jsonl");
  const SweepSummary summary = summarize(index, grid.systems, {{"workload.batch", 2}});
  CHECK(summary.beyond_peak == 1);
  CHECK(summary.first_beyond_peak == "tutel at batch 2, 125 %");
  std::ostringstream table;
  write_table(table, summary, false);
  CHECK_THAT(table.str(), Catch::Contains("an MFU above 100 % in 1 of 2 cells (tutel at batch 2, 125 %)"));
}

TEST_CASE("An axis that changes no result is named") {
  const test::TemporaryFolder folder;
  const SweepGrid grid = grid_of(folder, R"({"name": "idle", "backend": "analytic", "systems": ["tutel", "fsmoe"],
    "base": {"cluster": "fsmoe-testbed-b", "model": "mixtral-8x7b", "workload.layers": 1},
    "axes": [{"name": "workload.batch", "values": [1, 2]},
             {"name": "cluster.node_link", "values": ["pcie", "nvlink_pairs", "nvswitch"]},
             {"name": "workload.dtype", "values": ["fp32"]}]})");
  run(grid, "out.jsonl", 1);
  CellIndex index(header_of(grid));
  index.add("out.jsonl");
  const SweepSummary summary =
      summarize(index, grid.systems, {{"workload.batch", 2}, {"cluster.node_link", 3}, {"workload.dtype", 1}});
  CHECK(summary.idle_axes == std::vector<std::string>{"cluster.node_link"});  // costs follow rates alone
}

TEST_CASE("Finished cells are kept, whatever ended the process") {
  const test::TemporaryFolder folder;
  const SweepGrid grid = grid_of(folder, small);
  const std::string whole = run(grid, "out.jsonl", 1);
  // Three cells and the beginning of a fourth; the second is another number, to see that it is not computed again.
  std::size_t at = 0;
  for (int line = 0; line < 4; ++line) at = whole.find('\n', at) + 1;
  std::string begun = whole.substr(0, at + 20);
  const std::size_t key = begun.find("\"makespan_s\":", begun.find("{\"cell\":1,")) + 13;
  begun.replace(key, begun.find(',', key) - key, "12345");
  fs::remove("out.jsonl");
  folder.write("out.jsonl.part", begun);
  const std::string resumed = run(grid, "out.jsonl", 2);
  CHECK_THAT(resumed, Catch::Contains("\"makespan_s\":12345,"));
  CHECK(std::count(resumed.begin(), resumed.end(), '\n') == 25);
  CHECK(resumed.size() == whole.size() + begun.size() - (at + 20));

  const SweepGrid other = grid_of(folder, R"({"name": "other", "backend": "analytic", "systems": ["tutel"]})");
  CHECK_THROWS_AS(run(other, "out.jsonl", 1), InputError);  // nothing is lost
  CHECK(text_of("out.jsonl") == resumed);
}

TEST_CASE("Parts of different sweeps, or not all parts, are not merged") {
  const test::TemporaryFolder folder;
  const SweepGrid grid = grid_of(folder, small);
  const std::string whole = run(grid, "one.jsonl", 1);
  run(grid, "s.jsonl", 1, {0, 2});
  // 24 cells are one batch, all of the first shard
  CHECK_NOTHROW(merge_sweep({"s.1-of-2.jsonl"}, "all.jsonl"));
  const std::string half = whole.substr(0, whole.rfind("{\"cell\":20,"));
  folder.write("half.jsonl", half);
  CHECK_THROWS_WITH(merge_sweep({"half.jsonl"}, "x.jsonl"), Catch::Contains("4 of 24 cells are missing"));
  folder.write("few.jsonl", header_of(grid).dump() + "\n");
  CHECK_THROWS_WITH(merge_sweep({"few.jsonl"}, "x.jsonl"), Catch::Contains("at least"));
  Json other = header_of(grid);
  other["backend"] = "simgrid";
  folder.write("other.jsonl", other.dump() + "\n");
  CHECK_THROWS_WITH(
      merge_sweep({"one.jsonl", "other.jsonl"}, "x.jsonl"),
      Catch::Contains("other.jsonl:1:1: this file belongs to another sweep (backend is \"simgrid\" there"));
  CHECK_THROWS_WITH(merge_sweep({"one.jsonl", "missing.jsonl"}, "x.jsonl"),
                    "cannot read missing.jsonl: No such file or directory");
  folder.write("no.jsonl", "{}\n" + whole);
  CHECK_THROWS_WITH(merge_sweep({"no.jsonl"}, "x.jsonl"),
                    Catch::Contains("no.jsonl:1:1: this is not a result of dovetail sweep"));
  CHECK_FALSE(fs::exists("x.jsonl"));
}

TEST_CASE("Every line of a sweep's file is checked, all of it") {
  const test::TemporaryFolder folder;
  const SweepGrid grid = grid_of(folder, small);
  const std::string whole = run(grid, "one.jsonl", 1);
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& message) {
    std::string text = whole;
    text.replace(text.find(from), from.size(), to);
    folder.write("bad.jsonl", text);
    INFO(from << " -> " << to);
    CHECK_THROWS_WITH(merge_sweep({"bad.jsonl"}, "x.jsonl"), Catch::Contains("bad.jsonl:" + message));
    CHECK_FALSE(fs::exists("x.jsonl"));
  };
  refused(R"({"cell":0,)", R"({"cell":0 GARBAGE)", "2:11:");
  refused(R"({"cell":0,)", R"({"cell":-1,)", "2:9: /cell");
  refused(R"({"cell":0,)", R"({"cell":24,)", "2:9: /cell");
  refused(R"({"cell":0,)", R"({"cell":2,)", "4:1: cell 2 stands here again, with another result than in bad.jsonl");
  refused(R"({"cell":0,)", R"({"cell":1,)", "2:");
  refused(R"({"cell":0,)", R"({"cell":0,"more":1,)", "2:18: /more: unknown key");
  refused(R"("system":"tutel")", R"("system":"fsmoe")", "3:20: /system");
  refused(R"("makespan_s":)", R"("makespan":)", "2:");
  refused(R"("makespan_s":)", R"("makespan_s":-)", "2:");
  const std::size_t makespan = whole.find("\"makespan_s\":"), end = whole.find(',', makespan);
  refused(whole.substr(makespan, end - makespan), R"("makespan_s":0.0)",
          "2:" + std::to_string(makespan + 13 - whole.find('\n')) + ": /makespan_s: 0, expected a time above 0");
  refused(R"("feasible":true)", R"("feasible":false)", "2:");
  refused(R"("feasible":true)", R"("feasible":1)", "2:");
  refused(R"("plan":{)", R"("plan":3,"x":{)", "2:");
  refused(R"("schema_version":"1.2")", R"("schema_version":"1.1")", "1:");
  refused(R"("cells":24)", R"("cells":23)", "1:");
  refused(R"("cells":24)", R"("cells":-1)", "1:");
  refused(R"("cells":24)", R"("cells":900000000000)", "1:");
  refused(R"("values":3)", R"("values":0)", "1:");
  refused(R"("axes":)", R"("x":)", "1:");
}

TEST_CASE("The same cell twice is one cell") {
  const test::TemporaryFolder folder;
  const SweepGrid grid = grid_of(folder, small);
  const std::string whole = run(grid, "one.jsonl", 1);
  merge_sweep({"one.jsonl", "one.jsonl"}, "x.jsonl");
  CHECK(text_of("x.jsonl") == whole);
}

TEST_CASE("A file that is no part of this sweep is refused and stays as it is") {
  const test::TemporaryFolder folder;
  const SweepGrid grid = grid_of(folder, small);
  for (const std::string text : {"important\n", "important", "{}\n"}) {
    folder.write("out.jsonl.part", text);
    CHECK_THROWS_AS(run(grid, "out.jsonl", 1), InputError);
    CHECK(text_of("out.jsonl.part") == text);
  }
  fs::remove("out.jsonl.part");
  folder.write("important", "x");
  fs::create_symlink("important", "out.jsonl.part");
  CHECK_THROWS_WITH(run(grid, "out.jsonl", 1), Catch::Contains("symbolic link"));
  CHECK(text_of("important") == "x");
  fs::remove("out.jsonl.part");
  folder.write("out.jsonl.part", header_of(grid).dump().substr(0, 30));  // killed while the header was written
  CHECK(run(grid, "out.jsonl", 1).size() > 1000);
}

TEST_CASE("Where every cell is refused no file stays") {
  const test::TemporaryFolder folder;
  const SweepGrid grid = grid_of(folder, R"({"name": "no", "backend": "analytic", "systems": ["deepspeed_moe"],
    "base": {"cluster": "fsmoe-testbed-b", "model": "mixtral-8x7b", "plan.forward_degree": 2}})");
  CHECK_THROWS_WITH(run(grid, "out.jsonl", 1), Catch::Contains("every cell is refused; the first:"));
  for (const auto& file : fs::directory_iterator(".")) CHECK(file.path().filename() == "grid.json");
}

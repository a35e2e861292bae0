// Grids as products of axes, and cells that are neither lost nor computed twice.
#include "bench/sweep/sweep.hpp"

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

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
  "base": {"cluster": "fsmoe-testbed-b", "model": "mixtral-8x7b", "workload.layers": 1},
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
  return {{"kind", "sweep"}, {"cells", grid.cells()}, {"systems", grid.systems}};
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
  CHECK(point.request.set == std::vector<std::string>{"workload.layers=1", "workload.batch=2",
                                                      "workload.capacity_factor=2", "plan.forward_degree=2"});
}

TEST_CASE("A wrong grid is refused with its place") {
  const test::TemporaryFolder folder;
  const auto refused = [&](const std::string& axes, const std::string& message) {
    CHECK_THROWS_WITH(grid_of(folder, "{\"name\": \"g\", \"systems\": [\"tutel\"], \"axes\": " + axes + "}"),
                      Catch::Contains("./grid.json:1:") && Catch::Contains(message));
  };
  refused(R"([{"name": "batch", "values": [1]}])", "expected cluster, model, calibration, nodes or a dotted path");
  refused(R"([{"name": "nodes", "values": [1, 1]}])", "given twice");
  refused(R"([{"name": "nodes", "values": [1]}, {"name": "x", "values": [{"nodes": 2}]}])", "as an earlier axis does");
  refused(R"([{"name": "nodes", "values": []}])", "/axes/0/values");
}

TEST_CASE("The first cell of every shipped sweep gives numbers") {
  for (const std::string& name : known_names("sweeps")) {
    INFO(name);
    FilesRead files;
    const SweepGrid grid = load_sweep_grid(name, files);
    CHECK(grid.name == name);
    CHECK_FALSE(grid.description.empty());
    CHECK_THAT(SweepCells(grid).line(0), Catch::Contains("\"makespan_s\":"));
  }
}

TEST_CASE("A cell does not depend on those computed before it") {
  const test::TemporaryFolder folder;
  const SweepGrid grid = grid_of(folder, small);
  SweepCells after_others(grid);
  for (std::int64_t cell = grid.cells() - 1; cell >= 0; --cell)
    CHECK(after_others.line(cell) == SweepCells(grid).line(cell));
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
  CellIndex index(grid.cells());
  index.add("out.jsonl", header_of(grid));
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

TEST_CASE("An axis that changes no result is named") {
  const test::TemporaryFolder folder;
  const SweepGrid grid = grid_of(folder, R"({"name": "idle", "backend": "analytic", "systems": ["tutel", "fsmoe"],
    "base": {"cluster": "fsmoe-testbed-b", "model": "mixtral-8x7b", "workload.layers": 1},
    "axes": [{"name": "workload.batch", "values": [1, 2]},
             {"name": "cluster.nic_bandwidth", "values": ["100 Gb/s", "200 Gb/s", "400 Gb/s"]},
             {"name": "workload.dtype", "values": ["fp32"]}]})");
  run(grid, "out.jsonl", 1);
  CellIndex index(grid.cells());
  index.add("out.jsonl", header_of(grid));
  const SweepSummary summary =
      summarize(index, grid.systems, {{"workload.batch", 2}, {"cluster.nic_bandwidth", 3}, {"workload.dtype", 1}});
  CHECK(summary.idle_axes == std::vector<std::string>{"cluster.nic_bandwidth"});  // costs are the calibration's
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
  run(grid, "s.jsonl", 1, {0, 2});
  // 24 cells are one batch, all of the first shard
  CHECK_NOTHROW(merge_sweep({"s.1-of-2.jsonl"}, "all.jsonl"));
  folder.write("half.jsonl", header_of(grid).dump() + "\n{\"cell\":1,\"x\":1}\n");
  CHECK_THROWS_WITH(merge_sweep({"half.jsonl"}, "x.jsonl"), Catch::Contains("23 of 24 cells are missing"));
  folder.write("other.jsonl", R"({"kind":"sweep","cells":3,"systems":[]})"
                              "\n");
  CHECK_THROWS_WITH(merge_sweep({"half.jsonl", "other.jsonl"}, "x.jsonl"), Catch::Contains("of another sweep"));
  folder.write("no.jsonl", "{}\n");
  CHECK_THROWS_WITH(merge_sweep({"no.jsonl"}, "x.jsonl"), Catch::Contains("not a result of dovetail sweep"));
}

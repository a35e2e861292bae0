// SPDX-License-Identifier: Apache-2.0
// The cost of a cell of a sweep: one layer of Mixtral-8x7B on FSMoE's testbed B, SimGrid, each cell with another
// capacity. Goal: 5,000 cells a second with a fixed plan of degree 4.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "bench/sweep/sweep_cells.hpp"

namespace {

namespace fs = std::filesystem;
using namespace dovetail;
using namespace dovetail::bench;

constexpr auto fixed_plan = R"({"name": "degree_4", "planner": {"name": "fixed"}, "plan":
  {"scope": "moe", "comm_streams": "inter_intra", "forward_degree": 4, "backward_degree": 4}})";

// A grid of a thousand cells, written to a folder. `system` is a name, or empty for the fixed plan.
SweepGrid grid_of(const std::string& system, const std::string& overlap, const fs::path& folder) {
  fs::create_directories(folder);
  std::ofstream(folder / "degree_4.json") << fixed_plan;
  std::string factors = "1";
  for (int i = 1; i < 1000; ++i) factors += fmt::format(", {}", 1 + i / 1000.0);
  std::ofstream(folder / "grid.json") << fmt::format(
      R"({{"name": "cells", "systems": ["{}"],
           "base": {{"cluster": "fsmoe-testbed-b", "model": "mixtral-8x7b", "workload.layers": 1, "overlap": "{}"}},
           "axes": [{{"name": "workload.capacity_factor", "values": [{}]}}]}})",
      system.empty() ? "./degree_4.json" : system, overlap, factors);
  FilesRead files;
  return load_sweep_grid((folder / "grid.json").string(), files);
}

void sweep_cell(benchmark::State& state, const std::string& system, const std::string& overlap = "ideal") {
  const fs::path folder = fs::temp_directory_path() / fmt::format("dovetail-sweep-{}", getpid());
  const SweepGrid grid = grid_of(system, overlap, folder);
  SweepCells cells(grid);
  std::int64_t next = 0;
  for (auto _ : state) benchmark::DoNotOptimize(cells.line(next++ % grid.cells()));
  state.counters["cells/s"] = benchmark::Counter(1, benchmark::Counter::kIsIterationInvariantRate);
  fs::remove_all(folder);
}
BENCHMARK_CAPTURE(sweep_cell, degree_4, "")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(sweep_cell, tutel, "tutel")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(sweep_cell, fsmoe, "fsmoe")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(sweep_cell, degree_4_interfering, "", "interfering")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(sweep_cell, tutel_interfering, "tutel", "interfering")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(sweep_cell, fsmoe_interfering, "fsmoe", "interfering")->Unit(benchmark::kMicrosecond);

}  // namespace

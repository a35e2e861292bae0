// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>

#include "bench/cli/lock_file.hpp"
#include "bench/cli/outputs.hpp"
#include "bench/pipeline/line_log.hpp"
#include "bench/sweep/sweep_cells.hpp"
#include "bench/sweep/worker_pool.hpp"
#include "models/base/errors.hpp"

namespace dovetail::bench {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::int64_t batch_cells = 64;            // between two writes to the disk
constexpr std::chrono::seconds sync{1};             // each takes some milliseconds
constexpr std::chrono::minutes merge_patience{10};  // shards that end together: one merges, the others wait

// A refusal leaves nothing.
void require_a_result(const CellIndex& index, LineLog& log) try {
  index.require_a_result();
} catch (const InputError&) {
  log.remove();
  throw;
}

void write_sorted(const std::string& path, const Json& header, const CellIndex& index) {
  write_all({{path, [&](std::ostream& out) {
                out << header.dump() << '\n';
                index.for_each([&](std::string_view line) { out << line << '\n'; });
              }}});
}

bool complete(const std::string& path, const Json& header, std::int64_t cells) {
  if (!fs::exists(path)) return false;
  CellIndex index(header);
  index.add(path);
  return index.count() == cells;
}

// Numbers of the batches that a shard has, and how many cells are in them.
struct Work {
  std::vector<std::int64_t> batches;
  std::int64_t cells = 0;
};

Work work_of(std::int64_t cells, Shard shard) {
  Work work;
  for (std::int64_t batch = shard.index; batch * batch_cells < cells; batch += shard.count) {
    work.batches.push_back(batch);
    work.cells += std::min(batch_cells, cells - batch * batch_cells);
  }
  return work;
}

void compute_cells(const SweepGrid& grid, const SweepSettings& settings, const Work& work, const CellIndex& done,
                   LineLog& log) {
  ProgressLine progress("sweep", static_cast<int>(work.batches.size()), settings.talk);
  std::unique_ptr<SweepCells> cells;  // each worker makes its own
  const auto compute = [&](std::int64_t i) {
    if (!cells) cells = std::make_unique<SweepCells>(grid);
    std::string lines;
    const std::int64_t first = work.batches[static_cast<std::size_t>(i)] * batch_cells;
    for (std::int64_t cell = first; cell < std::min(first + batch_cells, grid.cells()); ++cell)
      if (!done.has(cell)) lines += cells->line(cell) + '\n';
    return lines;
  };
  for_each_piece(static_cast<std::int64_t>(work.batches.size()), settings.workers, compute,
                 [&](std::int64_t, const std::string& lines) {
                   if (!lines.empty()) log.add(lines);
                   progress.done();
                   progress.begin(fmt::format("batches of {} cells", batch_cells));
                 });
}

// The shard's own file, whole and sorted at the end. Returns how many cells had not been computed before.
std::int64_t run_shard(const SweepGrid& grid, const Json& header, const SweepSettings& settings,
                       const std::string& path) {
  const LockFile lock(path);
  const Work work = work_of(grid.cells(), settings.shard);
  if (complete(path, header, work.cells)) return 0;
  const std::string part = path + ".part", first = header.dump();
  LineLog log(part);
  CellIndex done(header);
  const std::int64_t whole = log.first_line(first) ? done.add(part) : 0;
  log.begin(first, whole, sync);
  compute_cells(grid, settings, work, done, log);
  CellIndex all(header);
  all.add(part);
  if (settings.shard.count == 1) require_a_result(all, log);
  write_sorted(path, header, all);
  log.remove();
  return work.cells - done.count();
}

void merge(const std::vector<std::string>& files, const std::string& output) {
  const Json header = read_sweep_header(files.front());
  const std::int64_t cells = header.at("cells");
  std::uintmax_t bytes = 0;
  for (const std::string& file : files) {
    read_sweep_header(file);
    bytes += fs::file_size(file);
  }
  const auto most = static_cast<std::int64_t>(bytes / shortest_cell_line);  // before anything is allocated for them
  if (most < cells)
    throw InputError(fmt::format("at least {} of {} cells are missing in these files: finish all shards first",
                                 cells - most, cells));
  CellIndex index(header);
  for (const std::string& file : files) index.add(file);
  if (index.count() < cells)
    throw InputError(fmt::format("{} of {} cells are missing in these files: finish all shards first",
                                 cells - index.count(), cells));
  index.require_a_result();
  write_sorted(output, header, index);
}

}  // namespace

std::string shard_file(const std::string& output, Shard shard) {
  if (shard.count == 1) return output;
  const fs::path path(output);
  return (path.parent_path() /
          fmt::format("{}.{}-of-{}{}", path.stem().string(), shard.index + 1, shard.count, path.extension().string()))
      .string();
}

SweepRun run_sweep(const SweepGrid& grid, const Json& header, const SweepSettings& settings) {
  if (complete(settings.output, header, grid.cells())) return {true, 0};
  const int shards = settings.shard.count;
  const std::int64_t computed = run_shard(grid, header, settings, shard_file(settings.output, settings.shard));
  if (shards == 1) return {true, computed};
  std::vector<std::string> files;
  for (int i = 0; i < shards; ++i) {
    files.push_back(shard_file(settings.output, {i, shards}));
    if (!complete(files.back(), header, work_of(grid.cells(), {i, shards}).cells)) return {false, computed};
  }
  const LockFile lock(settings.output, merge_patience);
  if (!complete(settings.output, header, grid.cells())) merge(files, settings.output);
  return {true, computed};
}

void merge_sweep(const std::vector<std::string>& files, const std::string& output) {
  const LockFile lock(output);
  merge(files, output);
}

}  // namespace dovetail::bench

#include "bench/sweep/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "bench/cli/outputs.hpp"
#include "bench/sweep/sweep_cells.hpp"
#include "bench/sweep/worker_pool.hpp"
#include "models/base/errors.hpp"

namespace dovetail::bench {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::int64_t batch_cells = 64;  // between two writes to the disk

std::string shard_path(const std::string& output, int index, int count) {
  if (count == 1) return output;
  const fs::path path(output);
  return (path.parent_path() /
          fmt::format("{}.{}-of-{}{}", path.stem().string(), index + 1, count, path.extension().string()))
      .string();
}

void write_sorted(const std::string& path, const Json& header, const CellIndex& index) {
  write_all({{path, [&](std::ostream& out) {
                out << header.dump() << '\n';
                index.for_each([&](std::string_view line) { out << line << '\n'; });
              }}});
}

bool complete(const std::string& path, const Json& header, std::int64_t cells) {
  if (!fs::exists(path)) return false;
  CellIndex index(header.at("cells"));
  index.add(path, header);
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

// The shard's own file, whole and sorted at the end. Returns how many cells had not been computed before.
std::int64_t run_shard(const SweepGrid& grid, const Json& header, const SweepSettings& settings,
                       const std::string& path) {
  const Work work = work_of(grid.cells(), settings.shard);
  if (complete(path, header, work.cells)) return 0;
  const std::string part = path + ".part";
  CellIndex done(grid.cells());
  const std::int64_t whole = fs::exists(part) && fs::file_size(part) > 0 ? done.add(part, header) : 0;
  {
    SweepLog log(part, header, whole);
    Progress progress("sweep", static_cast<int>(work.batches.size()), settings.talk);
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
  CellIndex all(grid.cells());
  all.add(part, header);
  write_sorted(path, header, all);
  fs::remove(part);
  return work.cells - done.count();
}

}  // namespace

SweepRun run_sweep(const SweepGrid& grid, const Json& header, const SweepSettings& settings) {
  if (complete(settings.output, header, grid.cells())) return {true, 0};
  const int shards = settings.shard.count;
  const std::int64_t computed =
      run_shard(grid, header, settings, shard_path(settings.output, settings.shard.index, shards));
  if (shards == 1) return {true, computed};
  std::vector<std::string> files;
  for (int i = 0; i < shards; ++i) {
    files.push_back(shard_path(settings.output, i, shards));
    if (!complete(files.back(), header, work_of(grid.cells(), {i, shards}).cells)) return {false, computed};
  }
  merge_sweep(files, settings.output);
  return {true, computed};
}

void merge_sweep(const std::vector<std::string>& files, const std::string& output) {
  const Json header = read_sweep_header(files.front());
  CellIndex index(header.at("cells"));
  for (const std::string& file : files) index.add(file, header);
  const std::int64_t cells = header.at("cells");
  if (index.count() < cells)
    throw InputError(fmt::format("{} of {} cells are missing in these files: finish all shards first",
                                 cells - index.count(), cells));
  write_sorted(output, header, index);
}

}  // namespace dovetail::bench

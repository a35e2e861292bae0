// SPDX-License-Identifier: Apache-2.0
// Computes the cells of a sweep, in as many processes as there are cores, and keeps what is finished.
#pragma once
#include <string>

#include "bench/cli/terminal.hpp"
#include "bench/sweep/sweep_file.hpp"
#include "bench/sweep/sweep_grid.hpp"

namespace dovetail::bench {

// The part of the cells that this process computes: batches of cells i with i mod count = index.
struct Shard {
  int index = 0, count = 1;
};

struct SweepSettings {
  std::string output;  // "x.jsonl"; one of several shards writes "x.2-of-4.jsonl"
  Shard shard;
  int workers = 1;
  Talk talk = Talk::Normal;
};

struct SweepRun {
  bool complete = false;      // `output` is
  std::int64_t computed = 0;  // cells, that no earlier run had finished
};

// The file that a shard computes: `output` itself where it is the only one. Its cells are kept in "<file>.part" until
// it is whole.
std::string shard_file(const std::string& output, Shard shard);

// Goes on where an earlier run of the same sweep ended, however it ended. The last shard to finish merges all into
// `output`. Throws InputError where one of the files holds something else, where another process works on it, and
// where every cell is refused, which leaves no `output`.
SweepRun run_sweep(const SweepGrid& grid, const nlohmann::ordered_json& header, const SweepSettings& settings);

// Writes `output` from the files of all shards. Throws InputError where cells are missing, wrong or all refused.
void merge_sweep(const std::vector<std::string>& files, const std::string& output);

}  // namespace dovetail::bench

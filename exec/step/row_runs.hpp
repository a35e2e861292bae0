// SPDX-License-Identifier: Apache-2.0
// The rows of a chunk that each expert works on, and how to work on those of many experts at once.
#pragma once
#include <vector>

#include "exec/step/layer_shape.hpp"

namespace dovetail::exec {

// Rows of one expert that are contiguous in both of two chunks: row indices there.
struct RowRun {
  std::int64_t first_in_a, first_in_b, count;
};

// The capacity rows of the expert at a position that chunks a and b share, copy by copy.
std::vector<RowRun> expert_runs(const LayerShape& shape, std::int64_t position, RowRange a, RowRange b);

// Runs of `rows` rows each that lie evenly: the i-th is i steps further on, and so is its expert.
struct RunBatch {
  std::int64_t rows = 0, count = 1;
  std::int64_t first_expert = 0, first_a = 0, first_b = 0;
  std::int64_t expert_step = 0, a_step = 0, b_step = 0;
};

// Every run of every expert in one of few batches. Sums: no expert twice in a batch, since what it writes adds up.
enum class BatchOf { Rows, Sums };
std::vector<RunBatch> run_batches(const LayerShape& shape, RowRange a, RowRange b, BatchOf what = BatchOf::Rows);

}  // namespace dovetail::exec

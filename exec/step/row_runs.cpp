// SPDX-License-Identifier: Apache-2.0
#include "exec/step/row_runs.hpp"

#include <algorithm>

namespace dovetail::exec {
namespace {

struct ExpertRun {
  std::int64_t expert;
  RowRun run;
};

// Greedily, in the order given.
std::vector<RunBatch> batches(const std::vector<ExpertRun>& runs, BatchOf what) {
  std::vector<RunBatch> result;
  for (const auto& [expert, run] : runs) {
    if (!result.empty()) {
      RunBatch& last = result.back();
      const std::int64_t before = last.count - 1;
      const std::int64_t steps[] = {expert - last.first_expert - before * last.expert_step,
                                    run.first_in_a - last.first_a - before * last.a_step,
                                    run.first_in_b - last.first_b - before * last.b_step};
      const bool even =
          last.count == 1 || (steps[0] == last.expert_step && steps[1] == last.a_step && steps[2] == last.b_step);
      if (run.count == last.rows && even && (what == BatchOf::Rows || steps[0] != 0)) {
        last.expert_step = steps[0];
        last.a_step = steps[1];
        last.b_step = steps[2];
        ++last.count;
        continue;
      }
    }
    result.push_back({run.count, 1, expert, run.first_in_a, run.first_in_b});
  }
  return result;
}

}  // namespace

std::vector<RowRun> expert_runs(const LayerShape& shape, std::int64_t position, RowRange a, RowRange b) {
  const RowRange shared{std::max(a.first, b.first), std::min(a.last, b.last)};
  std::vector<RowRun> runs;
  if (shared.size() <= 0) return runs;
  for (std::int64_t copy = 0; copy < shape.row_copies; ++copy) {
    const std::int64_t block = copy * shape.positions() + position;
    const RowRun run{block * a.size() + shared.first - a.first, block * b.size() + shared.first - b.first,
                     shared.size()};
    const bool adjoins = !shape.block_gemms && !runs.empty() &&
                         runs.back().first_in_a + runs.back().count == run.first_in_a &&
                         runs.back().first_in_b + runs.back().count == run.first_in_b;
    if (adjoins)
      runs.back().count += run.count;
    else
      runs.push_back(run);
  }
  return runs;
}

std::vector<RunBatch> run_batches(const LayerShape& shape, RowRange a, RowRange b, BatchOf what) {
  std::vector<ExpertRun> by_expert, by_copy;
  for (std::int64_t position = 0; position < shape.positions(); ++position)
    if (const std::int64_t expert = shape.expert_at(position); expert >= 0)
      for (const RowRun& run : expert_runs(shape, position, a, b)) by_expert.push_back({expert, run});
  by_copy = by_expert;
  std::ranges::stable_sort(by_copy, {}, [](const ExpertRun& r) { return r.run.first_in_a; });
  std::vector<RunBatch> over_copies = batches(by_expert, what), over_experts = batches(by_copy, what);
  return over_experts.size() <= over_copies.size() ? over_experts : over_copies;
}

}  // namespace dovetail::exec

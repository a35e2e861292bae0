// SPDX-License-Identifier: Apache-2.0
#include "models/question/capacity.hpp"

#include <algorithm>

#include "models/question/expert_loads.hpp"
#include "models/question/volumes.hpp"

namespace dovetail {
namespace {

// `e` is one part of a step that goes in `micro_batches` parts.
std::int64_t load_of_part(const Experiment& e, int micro_batches) {
  for (const RouterLoad& load : e.workload.router_loads)
    if (load.micro_batches == micro_batches) return load.largest;
  return largest_load(e);
}

void resolve_part(Experiment& e, int micro_batches) {
  Workload& w = e.workload;
  w.capacity_rows = 0;
  if (w.capacity_factor > 0 || e.model.dense()) return;
  w.capacity_rows = std::max<std::int64_t>(1, std::min(load_of_part(e, micro_batches), capacity_limit(e)));
}

}  // namespace

void resolve_capacity(Experiment& e) {
  resolve_part(e, 1);
}

Experiment one_micro_batch(Experiment e, int micro_batches) {
  if (micro_batches == 1) return e;
  e.workload.batch /= micro_batches;
  resolve_part(e, micro_batches);
  e.workload.router_loads.clear();  // they are of the whole batch
  return e;
}

}  // namespace dovetail

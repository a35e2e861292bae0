#include "models/question/capacity.hpp"

#include <algorithm>

#include "models/question/expert_loads.hpp"
#include "models/question/volumes.hpp"

namespace dovetail {

void resolve_capacity(Experiment& e, std::int64_t largest_load) {
  Workload& w = e.workload;
  w.capacity_rows = 0;
  if (w.capacity_factor > 0) return;
  w.capacity_rows = std::max<std::int64_t>(1, std::min(largest_load, capacity_limit(e)));
}

void resolve_capacity(Experiment& e) {
  resolve_capacity(e, e.workload.capacity_factor <= 0 ? largest_load(e) : 0);
}

Experiment one_micro_batch(Experiment e, int micro_batches) {
  if (micro_batches == 1) return e;
  e.workload.batch /= micro_batches;
  // A router is known only by the largest load of the whole batch. No part of the batch exceeds it.
  if (e.workload.routing.kind != RoutingKind::Router)
    resolve_capacity(e);
  else if (e.workload.capacity_rows > 0)
    resolve_capacity(e, e.workload.capacity_rows);
  return e;
}

}  // namespace dovetail

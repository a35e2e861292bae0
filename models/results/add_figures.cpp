// SPDX-License-Identifier: Apache-2.0
#include "models/results/add_figures.hpp"

#include <numeric>

#include "models/question/volumes.hpp"

namespace dovetail {

void add_figures(Report& report) {
  const Experiment& e = report.experiment;
  report.routing = {layer_volumes(e).capacity, summarize_routing(e)};
  for (SystemResult& result : report.results) {
    result.throughput = throughput(e, result.metrics);
    if (report.kind == "run") result.throughput.mfu.reset();  // this machine is not the described device
    if (auto note = beyond_peak(result.system, result.throughput, e)) report.notes.push_back(*std::move(note));
    if (result.schedule == nullptr) continue;
    result.network = network_use(e, *result.schedule);
    result.memory_by_stage = memory_by_kind(*result.schedule, result.timeline);
    result.stage_peaks.clear();
    for (const MemoryByKind& of_stage : result.memory_by_stage)
      result.stage_peaks.push_back(std::accumulate(of_stage.begin(), of_stage.end(), Bytes(0)));
  }
}

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
// The zero-bubble paper's bubble rates, of our order of the pipeline's units with the times that the paper measured.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "bench/reproduce/tables.hpp"
#include "models/schedule/builder/pipeline_order.hpp"

namespace dovetail::bench {
namespace {

struct StageTimes {  // ms of one micro-batch on one stage, all its virtual stages together
  double forward, backward, hop;
};

// When the last unit ends. A stage works on its units one after the other; what it sends arrives a hop later, and
// neither stage does anything for that.
double pipeline_cost(const std::vector<builder::StageUnit>& order, int stages, int laps, const StageTimes& times) {
  struct Unit {
    Phase phase;
    int virtual_stage, micro_batch;
    auto operator<=>(const Unit&) const = default;
  };
  std::map<Unit, double> ends;
  std::vector<double> free(static_cast<std::size_t>(stages));
  for (const builder::StageUnit& u : order) {
    const bool forward = u.phase == Phase::Forward;
    const int here = u.lap * stages + u.stage, from = forward ? here - 1 : here + 1;
    double& end = free[static_cast<std::size_t>(u.stage)];
    if (0 <= from && from < stages * laps) end = std::max(end, ends.at({u.phase, from, u.micro_batch}) + times.hop);
    end += (forward ? times.forward : times.backward) / laps;
    ends[{u.phase, here, u.micro_batch}] = end;
  }
  return *std::ranges::max_element(free);
}

struct Pipeline {
  int stages, virtual_stages, micro_batches;
};

// Interleaved micro-batches go through the stages in groups of as many as there are stages.
Pipeline read_pipeline(const JsonReader& row) {
  constexpr std::int64_t most_units = 1'000'000;
  const Pipeline p{row.integer("stages", 2, 1000), row.integer("virtual_stages", 2, 100),
                   row.integer("micro_batches", 1, 10'000)};
  if (p.micro_batches % p.stages != 0)
    row.fail("micro_batches", fmt::format("{}, expected a multiple of the {} stages", p.micro_batches, p.stages));
  if (std::int64_t{p.stages} * p.virtual_stages * p.micro_batches > most_units)
    row.fail("micro_batches", fmt::format("{} on {} virtual stages are more than {} passes", p.micro_batches,
                                          p.stages * p.virtual_stages, most_units));
  return p;
}

}  // namespace

// The rate is (cost - m (T_F + T_B + T_W)) / cost, for m micro-batches.
Recomputed zero_bubble_rates(const JsonReader& settings, FilesRead&) {
  Recomputed result;
  for (const JsonReader& row : settings.at("measured").elements()) {
    const Pipeline p = read_pipeline(row);
    const StageTimes times{row.number("forward_ms"), row.number("input_gradient_ms") + row.number("weight_gradient_ms"),
                           row.number("hop_ms")};
    const auto rate = [&](PipelineSchedule schedule, int laps) {
      const double cost = pipeline_cost(builder::pipeline_order(schedule, p.stages, p.micro_batches, true, laps),
                                        p.stages, laps, times);
      return (cost - p.micro_batches * (times.forward + times.backward)) / cost;
    };
    const std::string name =
        fmt::format("{}, {} stages, {} micro-batches: ", row.string("model"), p.stages, p.micro_batches);
    result.values[name + "1F1B"] = rate(PipelineSchedule::OneForwardOneBackward, 1);
    result.values[name + "1F1B-I"] = rate(PipelineSchedule::Interleaved, p.virtual_stages);
  }
  return result;
}

}  // namespace dovetail::bench

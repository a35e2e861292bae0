// SPDX-License-Identifier: Apache-2.0
// The zero-bubble paper's bubble rates, of our programs with the times that the paper measured.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "bench/reproduce/tables.hpp"
#include "models/base/errors.hpp"
#include "models/plan/program.hpp"

namespace dovetail::bench {
namespace {

struct StageTimes {  // ms of one micro-batch on one rank, all its stages together
  double forward, input_gradient, weight_gradient, hop;

  double of(UnitKind kind) const {
    switch (kind) {
      case UnitKind::Forward:
        return forward;
      case UnitKind::InputGradient:
        return input_gradient;
      case UnitKind::WeightGradient:
        return weight_gradient;
      case UnitKind::Backward:
        return input_gradient + weight_gradient;
    }
    throw InternalError("kind of a unit");
  }
};

// The longest time from the begin of a rank's first unit to the end of its last one: ranks begin their next step
// without each other. A rank works on its units one after the other; what it sends arrives a hop later, and neither
// rank does anything for that.
double pipeline_cost(const Program& program, const StageTimes& times) {
  struct Pass {
    bool forward;
    int stage, micro_batch;
    auto operator<=>(const Pass&) const = default;
  };
  const int stages = static_cast<int>(program.rank_of.size());
  const double share = static_cast<double>(program.ranks.size()) / stages;
  std::map<Pass, double> ends;
  std::vector<double> begin(program.ranks.size(), -1), free(program.ranks.size());
  for (const Unit& u : units_of(in_order(program))) {
    const bool forward = u.kind == UnitKind::Forward;
    const auto rank = [&](int stage) {
      return static_cast<std::size_t>(program.rank_of[static_cast<std::size_t>(stage)]);
    };
    const int from = forward ? u.stage - 1 : u.stage + 1;
    double& end = free[rank(u.stage)];
    if (u.kind != UnitKind::WeightGradient && 0 <= from && from < stages)
      end = std::max(end, ends.at({forward, from, u.micro_batch}) + (rank(from) == rank(u.stage) ? 0 : times.hop));
    if (begin[rank(u.stage)] < 0) begin[rank(u.stage)] = end;
    end += times.of(u.kind) * share;
    if (u.kind != UnitKind::WeightGradient) ends[{forward, u.stage, u.micro_batch}] = end;
  }
  double longest = 0;
  for (std::size_t r = 0; r < free.size(); ++r) longest = std::max(longest, free[r] - begin[r]);
  return longest;
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
    const StageTimes times{row.number("forward_ms"), row.number("input_gradient_ms"), row.number("weight_gradient_ms"),
                           row.number("hop_ms")};
    const double work = p.micro_batches * (times.of(UnitKind::Forward) + times.of(UnitKind::Backward));
    const std::string name =
        fmt::format("{}, {} stages, {} micro-batches: ", row.string("model"), p.stages, p.micro_batches);
    const auto add = [&](const char* label, PipelineSchedule program, int laps) {
      const double cost = pipeline_cost(make_program(program, p.stages, p.micro_batches, laps), times);
      result.values[name + label] = (cost - work) / cost;
    };
    add("1F1B", pipeline_schedule("1f1b"), 1);
    add("1F1B-I", pipeline_schedule("interleaved"), p.virtual_stages);
    add("ZB-H1", pipeline_schedule("zb_h1"), 1);
    add("ZB-H2", pipeline_schedule("zb_h2"), 1);
  }
  return result;
}

}  // namespace dovetail::bench

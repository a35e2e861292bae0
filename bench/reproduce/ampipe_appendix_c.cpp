// SPDX-License-Identifier: Apache-2.0
// AMPipe's closed form of a layer's forward time (appendix C) against the schedule that it describes: p chunks of
// attention, dispatch, experts, combine; equal chunks (no causal mask), all other ops hidden.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "bench/reproduce/ampipe_formula.hpp"
#include "bench/reproduce/tables.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "models/price/transforms.hpp"
#include "models/schedule/op_table.hpp"
#include "models/time/analytic_backend.hpp"

namespace dovetail::bench {
namespace {

class Layer {
 public:
  Layer(const Experiment& experiment, int chunks) : chunks_(chunks) {
    Plan plan;
    plan.scope = Scope::Block;
    plan.forward_degree = plan.backward_degree = chunks;
    priced_ = price_plan(experiment, plan);
  }

  double makespan(const AmpipeCost& cost) {
    IdVector<OpId, Seconds> durations;
    for (const Op& op : priced_.schedule->ops) durations.push_back(Seconds(seconds(op.kind, cost) / chunks_));
    return analytic_makespan(with_durations(priced_, std::move(durations)), scratch_).value();
  }

 private:
  static double seconds(OpKind kind, const AmpipeCost& cost) {
    if (kind == OpKind::Attention) return cost.attention;
    if (entry_of(kind).exchanges_rows) return cost.all_to_all;
    return kind == OpKind::Expert ? cost.experts : 0;
  }

  int chunks_;
  PricedSchedule priced_;
  std::vector<double> scratch_;
};

}  // namespace

Recomputed ampipe_appendix_c(const JsonReader& settings, FilesRead& files) {
  const Experiment experiment = read_experiment(settings.at("experiment"), files);
  const int samples = settings.integer("samples", 1, 1'000'000);
  Recomputed result;
  for (int p : read_integer_axis(settings.at("chunks"))) {
    Layer layer(experiment, p);
    std::mt19937_64 random(1);
    const auto draw = [&] { return .1 + 9.9 * static_cast<double>(random() >> 11) * 0x1p-53; };  // .1 to 10 s
    double lowest = 1e9, highest = 0;
    for (int i = 0; i < samples; ++i) {
      const AmpipeCost cost{draw(), draw(), draw()};
      const double ratio = ampipe_formula(cost, p) / layer.makespan(cost);
      lowest = std::min(lowest, ratio);
      highest = std::max(highest, ratio);
    }
    result.values[fmt::format("p = {}: lowest formula / schedule", p)] = lowest;
    result.values[fmt::format("p = {}: highest formula / schedule", p)] = highest;
  }
  return result;
}

}  // namespace dovetail::bench

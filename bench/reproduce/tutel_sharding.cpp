// SPDX-License-Identifier: Apache-2.0
// Tutel's table of when to gather the weights of sharded experts (P1) and when to repeat rows to the shards (P2): the
// choice is the router's, which looks at sizes, and the gain is in time.
#include <fmt/format.h>

#include <cmath>

#include "bench/reproduce/moe_layer.hpp"
#include "bench/reproduce/tables.hpp"
#include "planners/online/parallelism_router.hpp"

namespace dovetail::bench {
namespace {

struct ShardingTimes {
  Seconds gathered, repeated;  // P1, P2
  bool routed_to_repeat = false;
  Seconds best() const { return std::min(gathered, repeated); }
};

// Tutel allows factors above E, where experts take more rows than there are tokens. f times the tokens at factor 1
// move and work on the same rows.
ShardingTimes times(const Experiment& base, LayerSizes sizes, int factor) {
  sizes.tokens *= factor;
  const Experiment e = moe_layer(base, sizes);
  Plan gathered, repeated;
  gathered.expert_sharding = ExpertSharding::EpDp;
  repeated.expert_sharding = ExpertSharding::EpMp;
  return {moe_time(e, gathered), moe_time(e, repeated),
          planners::moved_size(e, repeated) < planners::moved_size(e, gathered)};
}

std::string name_of(const LayerSizes& s, int factor) {
  return fmt::format("E{} S{}K V{}K f{}: ", s.experts, s.tokens / 1024, s.expert_hidden / 1024, factor);
}

}  // namespace

Recomputed tutel_table5(const JsonReader& settings, FilesRead& files) {
  const Experiment base = read_experiment(settings.at("experiment"), files);
  const LayerSizes usual = read_sizes(settings.at("layer"));
  Recomputed result;
  int right = 0, faster = 0;
  std::vector<double> errors;
  for (const JsonReader& setting : settings.at("layers").elements()) {
    const LayerSizes sizes = read_sizes(setting, usual);
    const int factor = setting.integer("factor", 1, 100);
    const bool repeats = setting.string("faster") == "P2";
    const ShardingTimes t = times(base, sizes, factor);
    const double gain = repeats ? percent_more(t.gathered, t.repeated) : percent_more(t.repeated, t.gathered);
    right += t.routed_to_repeat == repeats;
    faster += gain > 0;
    errors.push_back(std::abs(gain - setting.number("gain")));
    result.values[name_of(sizes, factor) + "choice"] = t.routed_to_repeat ? "P2" : "P1";
    result.values[name_of(sizes, factor) + (repeats ? "gain over P1" : "gain over P2")] = gain;
  }
  result.values["choices as published"] = static_cast<double>(right);
  result.values["faster ones as published"] = static_cast<double>(faster);
  result.values["mean error of the gains"] = mean(errors);

  const JsonReader mixed = settings.at("mixed");
  Seconds gathered, repeated, best;
  for (int factor : read_integer_axis(mixed.at("factors"))) {
    const ShardingTimes t = times(base, read_sizes(mixed, usual), factor);
    gathered += t.gathered;
    repeated += t.repeated;
    best += t.best();
  }
  result.values["mixed f: gain over P1"] = percent_more(gathered, best);
  result.values["mixed f: gain over P2"] = percent_more(repeated, best);
  return result;
}

}  // namespace dovetail::bench

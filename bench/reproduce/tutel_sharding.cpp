// Tutel's table of when to gather the weights of sharded experts (P1) and when to repeat rows to the shards (P2).
#include <fmt/format.h>

#include <cmath>

#include "bench/reproduce/moe_layer.hpp"
#include "bench/reproduce/tables.hpp"

namespace dovetail::bench {
namespace {

struct ShardingTimes {
  Seconds gathered, repeated;  // P1, P2
  Seconds best() const { return std::min(gathered, repeated); }
};

// Tutel allows factors above E, where experts take more rows than there are tokens. f times the tokens at factor 1
// move and work on the same rows.
ShardingTimes times(const Experiment& base, LayerSizes sizes, int factor) {
  sizes.tokens *= factor;
  const Experiment e = moe_layer(base, sizes);
  Plan plan;
  plan.expert_sharding = ExpertSharding::EpDp;
  const Seconds gathered = moe_time(e, plan);
  plan.expert_sharding = ExpertSharding::EpMp;
  return {gathered, moe_time(e, plan)};
}

std::string name_of(const LayerSizes& s, int factor) {
  return fmt::format("E{} S{}K V{}K f{}: ", s.experts, s.tokens / 1024, s.expert_hidden / 1024, factor);
}

}  // namespace

Recomputed tutel_table5(const JsonReader& settings, FilesRead& files) {
  const Experiment base = read_experiment(settings.at("experiment"), files);
  const LayerSizes usual = read_sizes(settings.at("layer"));
  Recomputed result;
  int right = 0;
  std::vector<double> errors;
  for (const JsonReader& setting : settings.at("layers").elements()) {
    const LayerSizes sizes = read_sizes(setting, usual);
    const int factor = setting.integer("factor", 1, 100);
    const bool repeats = setting.string("faster") == "P2";
    const ShardingTimes t = times(base, sizes, factor);
    const double gain = repeats ? percent_more(t.gathered, t.repeated) : percent_more(t.repeated, t.gathered);
    right += gain > 0;
    errors.push_back(std::abs(gain - setting.number("gain")));
    result.values[name_of(sizes, factor) + "choice"] = t.repeated < t.gathered ? "P2" : "P1";
    result.values[name_of(sizes, factor) + (repeats ? "gain over P1" : "gain over P2")] = gain;
  }
  result.values["choices as published"] = static_cast<double>(right);
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

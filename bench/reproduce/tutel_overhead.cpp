// SPDX-License-Identifier: Apache-2.0
// Tutel's table of what all-to-alls take of an MoE layer, and what hiding them could gain.
#include <fmt/format.h>

#include <algorithm>

#include "bench/reproduce/moe_layer.hpp"
#include "bench/reproduce/tables.hpp"

namespace dovetail::bench {

// The shares and speed-ups of the published times; and these times as our costs have them.
Recomputed tutel_table1(const JsonReader& settings, FilesRead& files) {
  const Experiment base = read_experiment(settings.at("experiment"), files);
  Recomputed result;
  for (const JsonReader& measured : settings.at("measured").elements()) {
    const double whole = measured.number("overhead_ms"), compute = measured.number("compute_ms"),
                 exchange = measured.number("all_to_all_ms");
    const std::string gpus = fmt::format("{} GPUs: ", measured.integer("gpus"));
    result.values[gpus + "share of all-to-all"] = 100 * exchange / whole;
    result.values[gpus + "potential saving"] = 100 * std::min(exchange, whole - exchange) / whole;
    result.values[gpus + "potential speed-up"] = whole / std::max(whole - exchange, exchange);
    result.values[gpus + "compute and all-to-all"] = compute + exchange;

    LayerSizes sizes;
    sizes.gpus = measured.integer("gpus", 1, largest_setting);
    const PricedSchedule priced = price_moe(moe_layer(base, read_sizes(settings.at("layer"), sizes)), Plan{});
    Seconds all, all_to_all;
    for (const OpId i : priced.duration.ids()) {
      all += priced.duration[i];
      if (priced.schedule->ops[i].collective() == Collective::AllToAll) all_to_all += priced.duration[i];
    }
    result.values[gpus + "all-to-all"] = milliseconds(all_to_all);
    result.values[gpus + "computation"] = milliseconds(all - all_to_all);
  }
  return result;
}

}  // namespace dovetail::bench

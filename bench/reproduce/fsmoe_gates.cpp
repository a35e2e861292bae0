// SPDX-License-Identifier: Apache-2.0
// FSMoE's table 6: steps of GPT2-XL on testbed B by kind of gate.
#include <fmt/format.h>

#include "bench/reproduce/tables.hpp"

namespace dovetail::bench {

Recomputed fsmoe_gates(const JsonReader& settings, FilesRead& files) {
  const System baseline = load_system(settings.string("baseline"), files);
  const System system = load_system(settings.string("system"), files);
  const std::vector<std::string> gates = read_strings(settings.at("gates"));
  double first = 0;  // the first gate's step
  Recomputed result;
  for (const std::string& gate : gates) {
    Experiment e = read_experiment(settings.at("experiment"), files, {fmt::format("workload.gate.kind={}", gate)});
    const Plan plan = choose_plan(e, system);
    const double slow = step_seconds(e, baseline), fast = step_seconds(e, plan);
    if (gate == gates.front())
      first = slow;
    else
      result.values[fmt::format("{}: {} over {}", gate, baseline.name, gates.front())] = slow / first;
    e.overlap = Overlap::Ideal;
    result.values[fmt::format("{}: {}", gate, baseline.name)] = 1e3 * slow;
    result.values[fmt::format("{}: {}", gate, system.name)] = 1e3 * fast;
    result.values[fmt::format("{}: ratio", gate)] = slow / fast;
    result.values[fmt::format("{}: ratio, ideal overlap", gate)] = slow / step_seconds(e, plan);
  }
  return result;
}

}  // namespace dovetail::bench

// SPDX-License-Identifier: Apache-2.0
// AMPipe's step times on eight A800 whose links are held to 20 GB/s, by the number of chunks.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/reproduce/tables.hpp"

namespace dovetail::bench {

Recomputed ampipe_table2(const JsonReader& settings, FilesRead& files) {
  Recomputed result;
  const System baseline = load_system(settings.string("baseline"), files);
  double most = 0;
  for (const auto& [name, model] : settings.at("models").members())
    for (int sequence : read_integer_axis(settings.at("sequences"))) {
      const Experiment e = read_experiment(settings.at("experiment"), files,
                                           {fmt::format("workload.sequence={}", sequence), "model=" + model.string()});
      double before = 0;
      for (int degree : read_integer_axis(settings.at("degrees"))) {
        System system = degree == 1 ? baseline : load_system(settings.string("system"), files);
        system.plan.forward_degree = system.plan.backward_degree = degree;
        const double seconds = step_seconds(e, system);
        if (degree == 1) before = seconds;
        most = std::max(most, 100 * (before / seconds - 1));
        result.values[fmt::format("{} {}K, degree {}", name, sequence / 1024, degree)] = 1e3 * seconds;
      }
    }
  result.values["largest speed-up"] = most;
  return result;
}

}  // namespace dovetail::bench

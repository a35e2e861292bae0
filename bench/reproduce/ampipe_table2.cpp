// AMPipe's step times on eight A800 whose links are held to 20 GB/s, by the number of chunks.
#include <fmt/format.h>

#include "bench/reproduce/tables.hpp"

namespace dovetail::bench {

Recomputed ampipe_table2(const JsonReader& settings, FilesRead& files) {
  Recomputed result;
  const System baseline = load_system(settings.string("baseline"), files);
  for (int sequence : read_integer_axis(settings.at("sequences"))) {
    const Experiment e =
        read_experiment(settings.at("experiment"), files, {fmt::format("workload.sequence={}", sequence)});
    for (int degree : read_integer_axis(settings.at("degrees"))) {
      System system = degree == 1 ? baseline : load_system(settings.string("system"), files);
      system.plan.forward_degree = system.plan.backward_degree = degree;
      result.values[fmt::format("{}K tokens, degree {}", sequence / 1024, degree)] = 1e3 * step_seconds(e, system);
    }
  }
  return result;
}

}  // namespace dovetail::bench

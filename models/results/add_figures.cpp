#include "models/results/add_figures.hpp"

#include "models/question/volumes.hpp"

namespace dovetail {

void add_figures(Report& report) {
  const Experiment& e = report.experiment;
  report.routing = {layer_volumes(e).capacity, summarize_routing(e)};
  for (SystemResult& result : report.results)
    if (result.schedule != nullptr) result.network = network_use(e, *result.schedule);
}

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
// Questions for searches over layouts.
#pragma once
#include <string>
#include <vector>

#include "models/files/load.hpp"
#include "planners/layouts/layout.hpp"
#include "tests/support/random_plans.hpp"

namespace dovetail::test {

inline std::vector<System> shipped_systems() {
  std::vector<System> systems;
  FilesRead files;
  for (const std::string& name : known_names("systems"))
    if (name != "dovetail") systems.push_back(load_system(name, files));
  return systems;
}

struct RandomQuestion {
  Experiment experiment;
  planners::LayoutRequest request;
};
inline RandomQuestion random_question(Random& random) {
  RandomQuestion question{random_experiment(random), {}};
  Experiment& e = question.experiment;
  weigh_bytes(random, e);
  e.parallelism.pipeline_layout.clear();
  e.parallelism.sequence_parallel.reset();
  e.workload.router_loads.clear();
  question.request.global_batch = e.workload.batch * e.parallelism.dp << random() % 3;
  return question;
}

}  // namespace dovetail::test

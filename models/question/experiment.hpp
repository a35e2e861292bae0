// The question: this model, trained this way, on this cluster, with these costs.
#pragma once
#include <vector>

#include "models/base/shared.hpp"
#include "models/question/cluster.hpp"
#include "models/question/model.hpp"
#include "models/question/parallelism.hpp"
#include "models/question/speed_event.hpp"
#include "models/question/workload.hpp"

namespace dovetail {

struct Calibration;  // price/calibration.hpp: only what makes or shows prices looks into it

struct Experiment {
  Cluster cluster;
  Model model;
  Shared<Calibration> calibration;
  Workload workload;
  Parallelism parallelism;
  std::vector<SpeedEvent> events = {};
};

}  // namespace dovetail

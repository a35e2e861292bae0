// The question: this model, trained this way, on this cluster, with these costs.
#pragma once
#include "models/calibration.hpp"
#include "models/cluster.hpp"
#include "models/model.hpp"
#include "models/parallelism.hpp"
#include "models/speed_events.hpp"
#include "models/workload.hpp"

namespace dovetail {

struct Experiment {
  Cluster cluster;
  Model model;
  Calibration calibration;
  Workload workload;
  Parallelism parallelism;
  std::vector<SpeedEvent> events = {};
};

// The same with the samples of one of `micro_batches` equal parts of the batch.
Experiment one_micro_batch(Experiment experiment, int micro_batches);

// Throws InputError when the parts do not fit together (groups, layers, head counts, capacity).
void validate(const Experiment& experiment);

}  // namespace dovetail

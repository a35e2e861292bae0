// The question: this model, trained this way, on this cluster, with these costs.
#pragma once
#include "models/price/calibration.hpp"
#include "models/price/speed_events.hpp"
#include "models/question/cluster.hpp"
#include "models/question/model.hpp"
#include "models/question/parallelism.hpp"
#include "models/question/workload.hpp"

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

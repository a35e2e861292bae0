// SPDX-License-Identifier: Apache-2.0
#include "models/question/model_flops.hpp"

#include "models/question/extension_sizes.hpp"
#include "models/question/parameters.hpp"
#include "models/question/recurrence_sizes.hpp"
#include "models/question/volumes.hpp"

namespace dovetail {
namespace {

// The multiply-adds of one row in one expert: the parameters of its matrices, or half of the flops that a user's own
// states.
double expert_multiplications(const Experiment& e) {
  if (e.extensions.expert == nullptr) return static_cast<double>(routed_expert_matrices(e.model));
  double sum = 0;
  for (const MatrixProduct& p : e.extensions.expert->forward_work(expert_sizes(e), 1, 1).products)
    sum += static_cast<double>(p.groups) * static_cast<double>(p.rows * p.columns) * static_cast<double>(p.inner);
  return sum;
}

}  // namespace

ModelFlops model_flops(const Experiment& experiment) {
  Experiment e = experiment;
  e.parallelism = {};  // all of the model on one rank
  const Model& m = e.model;
  const double passes = e.workload.phases == Phases::Training ? 3 : 1;  // a backward pass counts as two forward ones
  const double expert = expert_multiplications(e);
  ModelFlops flops;
  // The output head works once for each token that is predicted.
  flops.active_parameters = static_cast<double>((1 + e.workload.mtp_layers) * end_volumes(e).words * m.hidden);
  for (int layer = 0; layer < e.workload.all_layers(); ++layer) {
    const LayerVolumes v = layer_volumes(e, layer);
    flops.active_parameters += static_cast<double>(v.dense_parameters + v.router_parameters);
    if (v.moe) flops.active_parameters += e.workload.top_k * expert;
    flops.of_attention += passes * (score_flops_of_token(e, v) + v.recurrence_share * state_flops(m.recurrence));
  }
  flops.of_parameters = 2 * passes * flops.active_parameters;
  return flops;
}

}  // namespace dovetail

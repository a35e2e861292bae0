// SPDX-License-Identifier: Apache-2.0
#include "planners/steps/least_state.hpp"

#include <array>
#include <optional>

#include "models/question/volumes.hpp"
#include "models/schedule/shards.hpp"

namespace dovetail::planners {
namespace {

// Bytes that a rank holds of parameters, which so many ranks hold alike.
class StateOfParameters {
 public:
  StateOfParameters(const Workload& w, int zero) : training_(w.phases == Phases::Training), zero_(zero > 0) {
    of_each_ = size_of(w.dtype);
    if (!training_) return;
    of_each_ += size_of(w.gradient_dtype());
    const bool master = w.dtype != DType::Fp32 && w.dtype != DType::Fp64;
    states_ = (master ? 3 : 2) * size_of(DType::Fp32);  // Adam's moments, and a master weight
  }

  Bytes of(std::int64_t parameters, int replicas) const {
    const std::int64_t updated = zero_ ? Shards({0, parameters}, replicas).size() : parameters;
    return static_cast<double>(parameters) * of_each_ + (training_ ? static_cast<double>(updated) * states_ : Bytes(0));
  }

 private:
  bool training_, zero_;
  Bytes of_each_, states_;
};

}  // namespace

Bytes least_state(const Experiment& e, int zero) {
  const StateOfParameters state(e.workload, zero);
  const Parallelism& p = e.parallelism;
  const auto of_layer = [&](int layer) {
    const LayerVolumes v = layer_volumes(e, layer);
    return state.of(v.dense_parameters, p.dp) + state.of(v.replicated_parameters(), p.dp) +
           state.of(v.expert_parameters, p.edp);
  };
  Bytes all;
  std::array<std::optional<Bytes>, 2> known;  // of a dense layer and of a MoE layer, all of which are alike
  for (int layer = 0; layer < e.workload.layers; ++layer) {
    std::optional<Bytes>& kind = known[e.model.is_moe(layer) ? 1 : 0];
    if (!kind) kind = of_layer(layer);
    all += *kind;
  }
  for (int layer = e.workload.layers; layer < e.workload.all_layers(); ++layer) all += of_layer(layer);
  const EndVolumes ends = end_volumes(e);
  all += (ends.embedding_twice ? 2. : 1.) * state.of(ends.embedding_parameters, p.dp);
  all += state.of(ends.head_parameters, p.dp) + state.of(ends.norm_parameters, p.dp);
  return all / p.pp;
}

}  // namespace dovetail::planners

// SPDX-License-Identifier: Apache-2.0
// The sums that floors are made of: of the last layer of each kind in a schedule of a few layers.
#pragma once
#include <array>
#include <optional>
#include <vector>

#include "models/price/priced_schedule.hpp"
#include "models/question/volumes.hpp"
#include "planners/steps/one_stage.hpp"

namespace dovetail::planners {

inline constexpr std::size_t tensor_kinds = static_cast<std::size_t>(TensorKind::FrameworkBuffers) + 1;
inline constexpr std::size_t dense_layer = 0, moe_layer = 1, layer_kinds = 2, passes = 2;

using OfTensors = std::array<Bytes, tensor_kinds>;
using OfOps = std::array<Seconds, op_kinds>;

// The ops of a layer in one pass take so long.
struct PassSums {
  Seconds other;                   // computing, but for routing and the experts
  Seconds routing;                 // computing
  Seconds outside;                 // model-parallel collectives of the chain
  Seconds gathers;                 // of these: of gradients, beside which other ops may be computed again
  Seconds border;                  // of these: of what comes from another stage
  std::vector<Seconds> in, out;    // by chunk: exchanges of its rows before and after the experts
  std::array<Seconds, 2> links{};  // that exchanges use: between nodes, inside
  Seconds copied;
  std::optional<OpId> expert;
};

// A schedule says this of its last layer of each kind.
struct LayerLook {
  PricedSchedule priced;
  LayerVolumes volumes;
  std::array<std::array<PassSums, passes>, layer_kinds> sums{};
  std::array<OfOps, layer_kinds> again{};  // recomputed ops
  std::array<OfTensors, layer_kinds> held{};
};

class LayerLooking {
 public:
  // At so many layers of a stage. `most`: of the model's parts.
  LayerLooking(const Experiment& stage, Layers layers, Extent most = Extent::WholeLayers);

  const Experiment& experiment() const { return e_; }

  // Throws InputError where the plan is refused or a cost is missing.
  LayerLook at(const Plan& plan) const;

 private:
  std::optional<std::size_t> kind_of(int layer) const;
  void note(LayerLook& look, OpId id, std::size_t kind) const;
  void note_sent(const LayerLook& look, OpId id, std::size_t kind, PassSums& sums) const;
  void note_outside(const LayerLook& look, const Op& op, Seconds duration, std::size_t kind, PassSums& sums) const;
  void note_held(LayerLook& look) const;

  Experiment e_;
  std::array<int, layer_kinds> at_;  // the layer of each kind; -1: none
};

}  // namespace dovetail::planners

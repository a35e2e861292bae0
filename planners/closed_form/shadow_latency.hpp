// SPDX-License-Identifier: Apache-2.0
// The gain and the cost of shadowing in closed form (FasterMoE section 4.1), from the loads of the workload's
// routing.
#pragma once
#include <cstdint>
#include <vector>

#include "models/plan/plan.hpp"
#include "models/question/experiment.hpp"
#include "models/question/expert_loads.hpp"

namespace dovetail::planners {

class ShadowLatency {
 public:
  // Times are those of `plan` without shadowed experts.
  ShadowLatency(const Experiment& experiment, const Plan& plan);

  // The experts, fullest first: by all tokens of all layers and ranks that choose them.
  const std::vector<int>& by_load() const { return by_load_; }
  // Messages of equal size must hold the most tokens of one rank in one layer that choose an expert. In the order of
  // that number, most first: the first `count` experts, and the first ones of each owner that leave it `left` at most.
  std::vector<int> smallest_set(std::size_t count, std::size_t left) const;
  std::size_t experts_of_an_owner() const { return total_.size() / static_cast<std::size_t>(e_.parallelism.ep); }
  double imbalance() const;  // of the fullest over the mean

  // The latency of one step's MoE layers with the first `count` of those shadowed:
  //   sum over layers of 3 comp B + 4 feat B + count * model
  // B: rows of the fullest rank, its own of shadowed experts included; comp: a row's time in an expert's forward pass;
  // feat: in an all-to-all; model: an expert's broadcast and the reduction of its gradient.
  Seconds of(std::size_t count) const;

  // The time of the weights and gradients of so many experts in all layers: a step takes no less.
  Seconds of_weights(std::size_t count) const { return moe_layers_ * static_cast<double>(count) * per_expert_; }

  // How many are shadowed, one more as long as that is faster.
  std::size_t experts_to_shadow() const;

 private:
  double fullest_rank(const std::vector<std::vector<std::int64_t>>& loads, const std::vector<bool>& shadowed) const;

  const Experiment& e_;
  std::vector<std::vector<std::vector<std::int64_t>>> loads_;  // by MoE layer (one where all are alike), rank, expert
  double moe_layers_ = 0;
  std::vector<double> total_;  // by expert
  std::vector<std::int64_t> largest_;
  std::vector<int> by_load_, by_largest_;
  Seconds per_row_, per_expert_;
};

}  // namespace dovetail::planners

// SPDX-License-Identifier: Apache-2.0
// The best plans of tune by other means: simulated by another backend, or really run in the size of this machine.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "bench/pipeline/evaluators.hpp"
#include "models/results/result.hpp"

namespace dovetail::bench {

// Backends but for the one that the search believes, "host" and "cuda".
std::vector<std::string> confirmer_names();

// Whether plans really run to be confirmed by that.
bool really_runs(const std::string& by);

class Confirmer {
 public:
  // `experiment`: the question without a layout; it must outlive this. Throws InputError for an unknown name,
  // DeviceError for what this build lacks.
  Confirmer(const Experiment& experiment, const std::string& by, const EvaluatorSettings& settings);

  // Confirms each of the plans. A plan runs in small with its own pipeline, virtual stages and knobs, on two nodes
  // for each stage, with two micro-batches for each stage at most and one layer in each virtual stage; degrees and
  // slices of gradients that it gives for single layers are left out, and GPUs get padded messages (pads()). A plan
  // that cannot be confirmed is left out with its reason. Throws DeviceError where this machine can confirm none.
  // `begin` is told which plan comes next, and `done` follows each.
  Confirmation confirm(const std::vector<SystemResult>& plans, const std::function<void(std::string_view)>& begin = {},
                       const std::function<void()>& done = {}) const;

  // Whether the question has routed messages and plans run with padded ones.
  bool pads() const { return pads_; }

 private:
  std::string by_;
  bool pads_ = false;
  std::function<ConfirmedPlan(const SystemResult&)> one_;
};

}  // namespace dovetail::bench

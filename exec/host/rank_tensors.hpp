// The tensors of one rank, which are those of its rank class: memory, initial contents, poison.
#pragma once
#include <atomic>
#include <span>
#include <vector>

#include "exec/reference/model_data.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail::exec {

// The values of a tensor when a step starts; null: none. Refers to the experiment and the data.
Numbers initial_values(const Experiment& experiment, const Tensor& tensor, const ModelData& data, int rank);

// Gradients are added to, and moments too.
bool starts_at_zero(const Tensor& tensor);

// Results are read after the step: the output, the input's gradient, and the routing for its drops.
bool is_result(const Experiment& experiment, const Tensor& tensor);

template <class Scalar>
class RankTensors {
 public:
  RankTensors(const Experiment& experiment, const Schedule& schedule, const ModelData& data, int rank);

  // Before a step: weights, inputs and sums as they must be at its start; with `poison` NaN in all the rest.
  void prepare(bool poison);
  // After an op, only in poisoned steps: NaN in what nobody will read again. Thread-safe.
  void release(const Op& op);

  // By tensor. Tensors that take over one another's memory are at one address.
  const std::vector<Scalar*>& all() const { return first_; }
  std::span<Scalar> values(TensorId id) const {
    return {first_[id], static_cast<std::size_t>(schedule_.tensors[id].elements)};
  }

 private:
  void release(TensorId id);

  const Schedule& schedule_;
  std::vector<std::vector<Scalar>> blocks_;
  std::vector<Scalar*> first_;                // by tensor: into its block; null: of another class
  std::vector<std::vector<Scalar>> initial_;  // by tensor; empty: none
  std::vector<int> uses_;                     // by tensor: reads and writes; 0: never released
  std::vector<std::atomic<int>> uses_left_;
};

}  // namespace dovetail::exec

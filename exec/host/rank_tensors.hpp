// SPDX-License-Identifier: Apache-2.0
// The tensors of one rank in host memory: blocks, initial contents, poison. Ops of several threads release them.
#pragma once
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "exec/host/rank_memory.hpp"
#include "exec/step/tensor_use.hpp"

namespace dovetail::exec {

template <class Scalar>
class RankTensors {
 public:
  // `number`: of the schedule among those that the memory is for.
  RankTensors(const Experiment& experiment, const Schedule& schedule, const ModelData& data, int rank,
              std::shared_ptr<RankMemory<Scalar>> memory, std::size_t number = 0);

  // Before a step: weights, inputs and sums as they must be at its start; with `poison` NaN in all the rest.
  void prepare(bool poison);
  // Before a step of a training, on the words of its batch, with `poison` as above. Weights and moments stay, unless it
  // is the first one.
  void prepare_training(const Experiment& experiment, const ModelData& batch, bool first, bool poison);
  // After an op, only in poisoned steps: NaN in what nobody will read again. Thread-safe.
  void release(const Op& op);

  // Tensors that take over one another's memory are at one address. Null: of another class.
  const IdVector<TensorId, Scalar*>& all() const { return first_; }
  std::span<Scalar> values(TensorId id) const {
    return {first_[id], static_cast<std::size_t>(schedule_.tensors[id].elements)};
  }

 private:
  void release(TensorId id);
  void poison_uses(TensorId id);

  const Schedule& schedule_;
  const int rank_;
  std::shared_ptr<RankMemory<Scalar>> memory_;
  IdVector<TensorId, Scalar*> first_;                // into its block of the memory
  IdVector<TensorId, std::vector<Scalar>> initial_;  // empty: none
  IdVector<TensorId, int> uses_;                     // reads and writes; 0: never released
  std::vector<std::atomic<int>> uses_left_;          // by tensor
};

}  // namespace dovetail::exec

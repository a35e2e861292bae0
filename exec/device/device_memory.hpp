// SPDX-License-Identifier: Apache-2.0
// The tensors of one rank on a device: one arena, their contents when a step starts, poison.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "exec/device/device.hpp"
#include "exec/device/element.hpp"
#include "exec/step/tensor_use.hpp"

namespace dovetail::exec {

// Steps of a compressed all-to-all carry what they are made of.
IdVector<TensorId, Stored> stored_tensors(const Schedule& schedule, Stored scalar);

// The memory of each tensor of a rank class: in the arena of its place, aligned to 256 bytes. Tensors that take over
// one another's memory are at one place; no others, since what runs when is only known to be ordered for them.
struct ArenaLayout {
  IdVector<TensorId, std::int64_t> offsets;  // -1: of another class
  std::int64_t device_bytes = 0, host_bytes = 0;
};
ArenaLayout arena_layout(const Schedule& schedule, const IdVector<TensorId, Stored>& stored, int rank_class);

// Numbers as a device stores them, and back. Not for Fp8.
std::vector<std::byte> encode(const Values& values, Stored stored);
Values decode(const std::vector<std::byte>& bytes, Stored stored);

// The same model with weights, inputs and loss gradients that the format holds exactly, so that a reference computes
// with the same numbers.
ModelData rounded(ModelData data, Stored stored);

class DeviceMemory {
 public:
  // Weights of `data` that is drawn later repeat after 2^20 elements.
  DeviceMemory(ComputeDevice& device, const Experiment& experiment, const Schedule& schedule, const ModelData& data,
               int rank, Stored scalar);

  const IdVector<TensorId, void*>& tensors() const { return tensors_; }  // null: of another class
  std::int64_t bytes_of(TensorId id) const;
  std::int64_t device_bytes() const { return layout_.device_bytes; }

  // AdamScales of the step, of the numbers that moments consist of.
  const void* adam_scales() const { return adam_scales_->data(); }

  // Writes the values that a step must find; with `poison` NaN in all the rest. No queue may be at work.
  void prepare(Queue& queue, bool poison);
  // The same for a step of a training: weights and moments stay, unless it is the first one.
  void prepare_training(Queue& queue, const Experiment& experiment, int step, const ModelData& batch);
  // Tensors that nobody needs after an op: it is the last of their users in program order.
  const std::vector<TensorId>& released_by(OpId op) const { return released_[op]; }
  const std::vector<OpId>& users_of(TensorId id) const { return users_[id]; }

  Values values(TensorId id) const;

 private:
  struct Initial {
    TensorId tensor;  // that it belongs to
    void* to;
    const void* from;  // null: zeros
    std::int64_t bytes;
  };
  void write(Queue& queue, const Initial& initial) const;
  void set_training_step(int step);
  // Elements of weights once more, in full precision, after the two moments.
  struct Master {
    RowRange elements;
    void* at = nullptr;
    Stored stored = Stored::Float;
  };
  // By weight tensor, of the elements that the rank updates; none of weights that are in full precision already.
  IdVector<TensorId, std::vector<Master>> master_weights(int rank) const;
  void upload_initial(const Experiment& experiment, const ModelData& data, int rank);
  void upload_initial(const Numbers& numbers, RowRange elements, std::int64_t distinct, Stored stored,
                      const Initial& initial, std::optional<Stored> by_way);
  void repeat(const Memory& memory, std::int64_t first_bytes) const;

  ComputeDevice& device_;
  const Schedule& schedule_;
  const int rank_;
  Stored wide_;
  IdVector<TensorId, Stored> stored_;
  ArenaLayout layout_;
  std::unique_ptr<Memory> arena_, pinned_, adam_scales_;
  int training_step_ = 0;  // that the scales are of
  std::vector<std::unique_ptr<Memory>> kept_;
  std::vector<Initial> initial_;
  IdVector<TensorId, void*> tensors_;
  IdVector<TensorId, std::vector<OpId>> users_;  // see users_until_release
  IdVector<OpId, std::vector<TensorId>> released_;
};

}  // namespace dovetail::exec

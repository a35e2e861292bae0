// What the parts of the builder share: the question, the streams, the persistent tensors, and how an op or a tensor of
// one place in the step is made. Knows no order of ops.
#pragma once
#include <initializer_list>
#include <span>
#include <vector>

#include "models/experiment.hpp"
#include "models/op_work.hpp"
#include "models/schedule_writer.hpp"

namespace dovetail::builder {

using TensorIds = std::vector<TensorId>;

// Streams that a plan does not keep apart are the same one.
struct StreamIds {
  StreamId compute = 0;
  StreamId inter = 0;    // all-to-alls and gradient reductions
  StreamId combine = 0;  // the all-to-all that brings rows back
  StreamId intra = 0;    // gathers and scatters of the groups inside a node
};

// Persistent tensors of one layer; gradients are -1 in a forward-only step.
struct LayerWeightIds {
  TensorId dense = -1, router = -1, expert = -1, router_gradient = -1, expert_gradient = -1;
};

class StepContext {
 public:
  StepContext(const Experiment& experiment, const Plan& plan);

  const Experiment& experiment() const { return experiment_; }
  const Plan& plan() const { return plan_; }
  bool training() const { return experiment_.workload.phases == Phases::Training; }
  int layers() const { return experiment_.workload.layers; }
  const LayerVolumes& volumes(int layer) const { return volumes_[static_cast<std::size_t>(layer)]; }
  OpWork work(int layer) const { return {volumes(layer), experiment_.workload.dtype, plan_}; }
  // What GroupKind means in this schedule; the experiment's parallelism unless the plan repeats rows to shards.
  const Parallelism& groups() const { return groups_; }
  const StreamIds& streams() const { return streams_; }
  const LayerWeightIds& weights(int layer) const { return weights_[static_cast<std::size_t>(layer)]; }
  const std::vector<LayerWeightIds>& weights() const { return weights_; }
  TensorId dense_gradients() const { return dense_gradients_; }
  TensorId optimizer_state() const { return optimizer_state_; }
  // Elements of `dense_gradients` that belong to a layer: the last layer comes first.
  RowRange dense_gradients_of(int layer) const;
  std::int64_t parameters() const;  // of this rank

  // --- ops ---
  Op op(OpKind kind, Phase phase, int layer, StreamId stream, const Work& work) const;
  Op chunk_op(OpKind kind, Phase phase, int layer, StreamId stream, int chunk, const ChunkRange& range,
              const Work& work) const;
  OpId add(const Op& op, std::span<const TensorId> reads, std::span<const TensorId> writes);
  OpId add(const Op& op, std::initializer_list<TensorId> reads, std::initializer_list<TensorId> writes);

  // --- tensors ---
  TensorId persistent(TensorKind kind, int layer, std::int64_t elements, bool gradient = false);
  TensorId activation(TensorKind kind, int layer, std::int64_t elements, bool gradient = false);
  TensorId fp32(TensorKind kind, int layer, std::int64_t elements);
  // Of the op's layer, expert, chunk, rows and peers; a gradient in the backward pass.
  TensorId chunked(TensorKind kind, const Op& op, std::int64_t elements);
  // Adds an op that makes one chunked tensor of another.
  TensorId pass(const Op& op, TensorId input, TensorKind kind, std::int64_t elements);

  Schedule finish();

 private:
  Tensor tensor(TensorKind kind, int layer, std::int64_t elements) const;
  void add_weights();

  const Experiment& experiment_;
  const Plan& plan_;
  Parallelism groups_;
  std::vector<LayerVolumes> volumes_;  // by layer
  ScheduleWriter writer_;
  StreamIds streams_;
  std::vector<LayerWeightIds> weights_;
  TensorId dense_gradients_ = -1, optimizer_state_ = -1;
};

}  // namespace dovetail::builder

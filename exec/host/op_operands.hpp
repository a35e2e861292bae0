// The operands of an op of a schedule on one rank: the part of models/schedule/operands.md that does not depend on
// where tensors lie or what they consist of.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "exec/host/layer_shape.hpp"
#include "exec/reference/routing.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail::exec {

// One op on one rank.
struct OpOperands {
  const Schedule& schedule;
  const Op& op;
  const LayerShape& shape;             // with the tokens and slots of `part`
  const TokenPart& part;               // all tokens, or those of the op's chunk where attention is chunked
  std::span<const std::int64_t> rows;  // see token_rows()
  const Routing& preset;               // of this rank and layer, for the gate; may be empty
  int group = 0;                       // of its tokens among all: micro-batch * data ranks + rank

  std::span<const TensorId> reads() const { return schedule.reads_of(op); }
  std::span<const TensorId> writes() const { return schedule.writes_of(op); }
  std::size_t read_count() const { return reads().size(); }
  std::size_t write_count() const { return writes().size(); }
  const Tensor& read_tensor(std::size_t i) const { return tensor(reads()[i]); }
  const Tensor& write_tensor(std::size_t i) const { return tensor(writes()[i]); }
  const Tensor& tensor(TensorId id) const { return schedule.tensors[id]; }
};

// The preset choices of the op's part; empty where the gate decides.
Routing preset_of_part(const OpOperands& o);

// The shape of an expert op, by its operands 0 (rows) and 1 (weights): all experts here, or one shadowed expert; all
// copies of the rows, or those of a peer group; own shards of the weights, or gathered ones.
LayerShape expert_shape(const OpOperands& o);

// The place of a weight tensor's gradient: which read of the update, from which element on.
struct GradientPlace {
  std::size_t read = 0;
  std::int64_t first = 0;
};
GradientPlace gradient_of(const OpOperands& update, const Tensor& weights);

// The things that the ops of all steps of an executor work on.
class OpSetup {
 public:
  // `routing` by layer and group, with `ranks` the global ranks here; empty: as the workload's routing model says,
  // where it has one.
  OpSetup(const Experiment& experiment, std::shared_ptr<const Schedule> schedule, std::vector<int> ranks,
          std::vector<std::vector<Routing>> routing);
  OpOperands operands(std::size_t local, const Op& op) const;

 private:
  const Routing& preset(const Op& op, int group) const;

  std::shared_ptr<const Schedule> schedule_;
  std::vector<int> ranks_;
  int stage_ranks_;
  std::vector<std::vector<Routing>> routing_;
  std::vector<TokenPart> parts_;                 // of one micro-batch: all tokens, then the chunks
  std::vector<std::vector<LayerShape>> shapes_;  // by local rank and part
  std::vector<std::int64_t> rows_;
};

}  // namespace dovetail::exec

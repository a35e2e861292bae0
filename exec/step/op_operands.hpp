// SPDX-License-Identifier: Apache-2.0
// The operands of an op of a schedule on one rank: the part of models/schedule/operands.md that does not depend on
// where tensors lie or what they consist of.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "exec/reference/routing.hpp"
#include "exec/step/layer_shape.hpp"
#include "models/schedule/operands.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail::exec {

// The operands of one op by their roles.
struct OpRoles {
  const Schedule& schedule;
  const Op& op;

  std::span<const TensorId> reads() const { return schedule.reads_of(op); }
  std::span<const TensorId> writes() const { return schedule.writes_of(op); }
  const Tensor& tensor(TensorId id) const { return schedule.tensors[id]; }

  // The operand of a role. If the op has none, the plain functions throw InternalError and the others return no id.
  TensorId read_id(Role role) const { return required(reads(), role); }
  TensorId write_id(Role role) const { return required(writes(), role); }
  TensorId find_read(Role role) const { return find(reads(), role); }
  TensorId find_write(Role role) const { return find(writes(), role); }
  // All of a role, in their order.
  std::vector<TensorId> all_reads(Role role) const { return all(reads(), role); }
  std::vector<TensorId> all_writes(Role role) const { return all(writes(), role); }
  const Tensor& read_tensor(Role role) const { return tensor(read_id(role)); }
  const Tensor& write_tensor(Role role) const { return tensor(write_id(role)); }
  // An exchange sends or sums its source; the end of it stands in its result.
  TensorId source() const { return reads().front(); }
  TensorId result() const { return writes().front(); }

 private:
  TensorId find(std::span<const TensorId> ids, Role role) const;
  TensorId required(std::span<const TensorId> ids, Role role) const;
  std::vector<TensorId> all(std::span<const TensorId> ids, Role role) const;
};

// One op on one rank.
struct OpOperands : OpRoles {
  const LayerShape& shape;             // with the tokens and slots of `part`
  const TokenPart& part;               // all tokens, or those of the op's chunk where attention is chunked
  std::span<const std::int64_t> rows;  // see token_rows()
  const Routing& preset;               // of this rank and layer, for the gate; may be empty
  std::int64_t words = 0;              // of the vocabulary, on each rank; 0: the step has no embedding
  int group = 0;                       // of its tokens among all: micro-batch * token_ranks + holder (Parallelism)
  int rank = 0;                        // in its stage
  double clip = 0;                     // the largest norm of gradients; 0: any
  int depth = 0;                       // of a layer of multi-token prediction, from 1 on; of all others 0
};

// The preset choices of the op's part; empty where the gate decides.
Routing preset_of_part(const OpOperands& o);

// The shape that an expert op works on, by its rows and weights: all experts here, or a shadowed one; all
// copies of the rows, or those of a peer group; own shards of the weights, or gathered ones.
LayerShape expert_shape(const OpOperands& o);

// The place of a weight tensor's gradient: what the update reads, from which element on.
struct GradientPlace {
  TensorId tensor;
  std::int64_t first = 0;
};

// Weights that a rank updates: `elements` of a tensor, whose gradients and states begin at those elements.
struct UpdatedPart {
  TensorId weights;
  RowRange elements;
  GradientPlace gradient;
  std::int64_t state = 0;  // in each of the states, which stand one after another: means, variances, weights in fp32
};
// All parts of a rank, in the order of their states. Each state has `total` elements.
struct UpdatedParts {
  std::vector<UpdatedPart> all;
  std::int64_t total = 0;
};
UpdatedParts updated_parts(const OpRoles& update, int rank);

// The first weight of a norm among those of its layer: the two norms of any layer, those of queries and keys, and those
// of multi-token prediction, of the next words' embeddings, of the output before and of its own output. The final norm
// has weights of its own.
std::int64_t first_norm_weight(const OpOperands& norm);
// The half of multi-token prediction's input that a norm of it makes: 0, the next words', or 1.
std::int64_t input_half(const OpOperands& norm);

// The parameters of attention and of a dense feed-forward part, with which a layer's dense weights begin; those of
// multi-token prediction's projection (2M, M / mp) come after them.
std::int64_t parameters_before_projection(const OpOperands& o);

// The words [first, first + count) that a rank has of the vocabulary, which so many ranks share.
struct WordShare {
  std::int64_t first = 0, count = 0, ranks = 1;
};
WordShare word_share(const OpOperands& o);  // of an op that reads or writes words' weights, or logits

// Everything that the ops of an executor's steps work on.
class OpSetup {
 public:
  // `routing` by layer and group, with `ranks` the global ranks here; empty: as the workload's routing model says,
  // where it has one.
  OpSetup(const Experiment& experiment, std::shared_ptr<const Schedule> schedule, std::vector<int> ranks,
          std::vector<std::vector<Routing>> routing);
  OpOperands operands(std::size_t local, const Op& op) const;
  // Other choices, for later operands; empty: as the routing model says.
  void set_routing(std::vector<std::vector<Routing>> routing) { routing_ = std::move(routing); }

 private:
  const Routing& preset(const Op& op, int group) const;

  std::shared_ptr<const Schedule> schedule_;
  std::vector<int> ranks_;
  Parallelism parallelism_;
  std::vector<std::vector<Routing>> modelled_, routing_;
  std::vector<TokenPart> parts_;                 // of one micro-batch: all tokens, then the chunks
  std::vector<std::vector<LayerShape>> shapes_;  // by local rank and part
  std::vector<std::int64_t> rows_;
  std::int64_t words_ = 0;
  double clip_;
  int main_layers_, all_layers_;
};

}  // namespace dovetail::exec

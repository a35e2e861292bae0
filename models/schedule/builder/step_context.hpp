// SPDX-License-Identifier: Apache-2.0
// State that the parts of the builder share: the question, the streams, the persistent tensors, and how an op or a
// tensor of one place in the step is made: in the stage and of the micro-batch entered last. Knows no order of ops.
#pragma once
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "models/question/experiment.hpp"
#include "models/question/stage_layout.hpp"
#include "models/schedule/builder/deferred_ops.hpp"
#include "models/schedule/end_work.hpp"
#include "models/schedule/op_work.hpp"
#include "models/schedule/schedule_writer.hpp"

namespace dovetail::builder {

using TensorIds = std::vector<TensorId>;

// Streams that a plan does not keep apart are the same one.
struct StreamIds {
  StreamId compute{0};
  StreamId inter{0};             // all-to-alls
  StreamId combine{0};           // the all-to-all that brings rows back
  StreamId intra{0};             // gathers and scatters of the experts' groups, steps of all-to-alls inside a node
  StreamId mp{0};                // collectives of model parallelism outside the experts
  StreamId gradients{0};         // reductions of the dense gradients, gathers of these weights, the norm of all
  StreamId expert_gradients{0};  // the same of the experts
  StreamId copy;                 // between device and host; -1: the plan copies nothing
  StreamId send, receive;        // between pipeline stages; -1 with one stage
};

// The part of a layer that an op or a tensor of a chunk covers.
template <class Item>
ChunkRange chunk_of(const Item& item) {
  return {item.rows, item.peers};
}

// Persistent tensors of one layer, on one stage; gradients are -1 in a forward-only step, routers and experts in a
// dense layer.
struct LayerWeightIds {
  TensorId dense, router, expert, router_gradient, expert_gradient;
  TensorId norm;  // -1 where the workload leaves norms out
};

// The weights of a model before and after its layers; -1 where the workload leaves them out. The head's may be the
// embedding's.
struct EndWeightIds {
  TensorId embedding, head, norm;
  TensorId second_embedding;  // on the last of several stages, for multi-token prediction or for the head
};

// Counts of the rows of one layer and micro-batch: those of the rank's tokens, those that arrive from its peers, and
// those of all shards. -1: padded messages, or a group of one rank. `choices` and `tokens` are for an exchange that
// sends a token to a node once: what the rank's tokens choose and, by chunk, which tokens the rows are of that arrived
// last.
struct RowCountIds {
  TensorId own, arriving, gathered, choices;
  std::vector<TensorId> tokens = {};
};

class StepContext {
 public:
  StepContext(const Experiment& experiment, const Plan& plan);

  void enter(int stage, int micro_batch);
  int stage() const { return stage_; }
  int micro_batch() const { return micro_batch_; }
  int stages() const { return layout_.stages(); }
  const StageLayout& layout() const { return layout_; }
  std::span<const int> layers_of_stage() const { return layout_.layers_of(stage_); }

  const Experiment& experiment() const { return experiment_; }  // of one micro-batch
  const Plan& plan() const { return plan_; }
  bool model_parallel() const { return groups_.mp > 1; }  // parts of the dense layers are sums over ranks
  // From the model-parallel ranks' tokens to all of theirs; else each has all of them.
  bool mp_gathers() const { return model_parallel() && !groups_.repeats_tokens(); }
  bool training() const { return experiment_.workload.phases == Phases::Training; }
  int layers() const { return experiment_.workload.all_layers(); }
  int main_layers() const { return experiment_.workload.layers; }  // those after them predict further tokens
  const LayerVolumes& volumes(int layer) const { return volumes_[static_cast<std::size_t>(layer)]; }
  // The groups that GroupKind names here: the experiment's parallelism unless the plan repeats rows to shards.
  const Parallelism& groups() const { return groups_; }
  OpWork work(int layer) { return {volumes(layer), experiment_, plan_, writer_}; }
  OpWork work(const TokenPart& part) { return {part.volumes, experiment_, plan_, writer_}; }
  EndWork end_work() { return {ends_, volumes(0), experiment_, writer_}; }
  // All tokens in one part or, where attention is chunked too, one part for each chunk.
  const std::vector<TokenPart>& parts(int layer) const { return parts_[static_cast<std::size_t>(layer)]; }
  // The format in which this exchange sends rows; Same if another would not make them smaller, and for rows that are
  // summed on their way back.
  Wire wire(OpKind exchange, Phase phase) const;
  Wire wire(const Op& exchange) const { return wire(exchange.kind, exchange.phase); }
  const StreamIds& streams() const { return here().streams; }
  const LayerWeightIds& weights(int layer) const { return here().weights[static_cast<std::size_t>(layer)]; }
  const EndWeightIds& end_weights() const { return here().end_weights; }
  const EndVolumes& ends() const { return ends_; }
  bool has_embedding() const { return ends_.exist() && layout_.has_begin(stage_); }
  // On this stage, for its input, for multi-token prediction or for a head that shares it.
  TensorId embedding_weights() const {
    return has_embedding() ? end_weights().embedding : end_weights().second_embedding;
  }
  bool holds_embedding() const { return has_embedding() || (ends_.embedding_twice && has_head()); }
  bool has_head() const { return ends_.exist() && layout_.has_end(stage_); }
  bool has_norms() const { return experiment_.workload.whole_layers(); }
  // Whether the backward pass reads the activated rows of experts and feed-forward parts. It computes them again
  // where experts have no gate, whose hidden rows they are, and in steps as the papers count them.
  bool keeps_activated() const;
  bool is_plain() const;  // whether experts and dense parts have no gate, in a training
  bool recomputes(Recompute part) const { return training() && plan_.recompute.has(part); }
  // Tokens go to each node once.
  bool deduplicates() const { return plan_.all_to_all == AllToAll::NodeDeduplicated && groups_.ep > 1; }
  // The steps of the all-to-all among the experts' ranks; empty: it is one exchange. ExchangeWork::steps index these.
  std::span<const CollectiveStep> all_to_all_steps() const { return all_to_all_steps_; }
  TensorId dense_gradients() const { return here().dense_gradients; }
  TensorId optimizer_state() const { return here().optimizer_state; }
  TensorId replicated_gradients() const { return here().replicated_gradients; }
  TensorIds all_gradients() const;  // of weights, on this stage
  bool clips() const { return experiment_.workload.clips(); }
  // This stage's part of the norm's square and, where there are several ranks, the whole; -1: nothing is clipped.
  TensorId gradient_squares() const { return here().gradient_squares; }
  TensorId squares_of_all() const { return here().squares_of_all; }
  // Elements of the stage's `dense_gradients` that belong to a layer, as in its dense_weights: those of the output head
  // come first, if it has its own, then the last layer, and those of the embedding last, on each stage that holds it.
  RowRange dense_gradients_of(int layer) const;
  RowRange embedding_gradients() const;
  RowRange head_gradients() const { return {0, has_head() ? ends_.head_parameters : 0}; }
  // Elements of the stage's `replicated_gradients`: by layer, its norms and then its router; the final norm, as that of
  // layer `layers`, is last.
  RowRange replicated_gradients_of(int layer) const;
  RowRange query_key_norm_gradients_of(int layer) const;  // among these
  // The slices of the stage's dense gradients, in backward order.
  std::span<const GradientSlice> gradient_slices() const { return here().slices; }
  std::int64_t updated_parameters() const;  // by a rank of this stage: all that it has, or with zero 1 its shards
  std::int64_t held_parameters() const;     // of whose gradients this rank of the stage holds all

  // --- ops ---
  Op op(OpKind kind, Phase phase, int layer, StreamId stream, const Work& work) const;
  Op part_op(OpKind kind, Phase phase, int layer, const TokenPart& part, const Work& work) const;  // of compute
  Op chunk_op(OpKind kind, Phase phase, int layer, StreamId stream, int chunk, const ChunkRange& range,
              const Work& work) const;
  OpId add(const Op& op, std::span<const TensorId> reads, std::span<const TensorId> writes, OpId after = {});
  OpId add(const Op& op, std::initializer_list<TensorId> reads, std::initializer_list<TensorId> writes,
           OpId after = {});
  // A backward op that adds to gradients of weights; make(work) is its work, or that of a half. Between begin_halves()
  // and end_halves() its half of the weights, and what reads what that writes, come with add_weights().
  OpId add_backward(Op op, const OpWork& work, const std::function<Work(const OpWork&)>& make,
                    std::span<const TensorId> reads, std::span<const TensorId> writes);
  void begin_halves(int virtual_stage) { deferred_.begin(virtual_stage, micro_batch_); }
  void end_halves() { deferred_.end(); }
  void add_weights(int virtual_stage);
  // In a whole backward pass: what makes gradients of weights between the first two comes with the third.
  void begin_delay();
  void end_delay();
  void add_delayed();
  OpId last_writer(TensorId tensor) const { return writer_.last_writer(tensor); }

  // From now on ops and tensors are recomputed ones, until end_recomputing(). An op that reads nothing recomputed waits
  // for `begin`. See Recomputation.
  void begin_recomputing(OpId begin);
  void end_recomputing() { recomputing_ = false; }

  // The counts of the micro-batch entered last.
  const RowCountIds& row_counts(int layer) const { return row_counts_[count_place(layer)]; }
  RowCountIds& row_counts(int layer) { return row_counts_[count_place(layer)]; }
  ScheduleWriter& writer() { return writer_; }
  bool kept_in_fp8(TensorKind kind) const;
  void hold_copies(TensorId tensor, Bytes each);  // further ones of the framework, of so many bytes an element
  void hold_mask(TensorId sum);                   // of the dropout before a sum of the layer, if the framework has it
  void hold_back(OpId id) { writer_.hold_back(id); }  // every later op of the stage waits for it

  void wait_for(Phase phase, int layer, TensorId tensor);  // the host, where the framework looks at a number
  void host_sync(Phase phase, int layer);  // where the plan has the host wait: between the phases of a layer

  // --- tensors ---
  TensorId persistent(TensorKind kind, int layer, std::int64_t elements, bool gradient = false);
  TensorId weight_gradients(TensorKind kind, int layer, std::int64_t elements);    // in their own format
  TensorId arriving_gradients(TensorKind kind, int layer, std::int64_t elements);  // of another stage, in that format
  TensorId activation(TensorKind kind, int layer, std::int64_t elements, bool gradient = false, int chunk = -1);
  TensorId fp32(TensorKind kind, int layer, std::int64_t elements, bool gradient = false, int chunk = -1);
  // A tensor like the op in layer, expert, chunk, rows and peers; a gradient in the backward pass, unless the op
  // restores what was dropped. `buffer`: see Tensor.
  TensorId chunked(TensorKind kind, const Op& op, std::int64_t elements, Wire wire = Wire::Same, TensorId buffer = {});
  TensorId expert_hidden(const Op& op, std::int64_t rows, TensorId buffer = {});
  // One fp32 number for each of the op's rows between the ranks that exchange them.
  TensorId row_scores(TensorKind kind, const Op& op, std::int64_t copies = 1);
  TensorId copy_of(TensorId original, Place place, TensorId buffer = {});
  std::int64_t elements_of(TensorId tensor) const { return writer_.tensor(tensor).elements; }
  bool is_here(TensorId tensor) const { return writer_.tensor(tensor).rank_class == stage_; }  // of the stage entered
  Bytes bytes_of(TensorId tensor) const { return writer_.tensor(tensor).bytes(); }
  // The elements of the op's rows, times `copies`, in the format they are sent in.
  std::int64_t row_elements(const Op& op, Wire wire, std::int64_t copies = 1) const;
  bool is_recomputed(TensorId id) const { return writer_.tensor(id).recomputed; }
  bool is_compressed(TensorId id) const { return writer_.tensor(id).kind == TensorKind::Compressed; }
  // Adds an op that makes one chunked tensor of others.
  TensorId pass(const Op& op, std::span<const TensorId> inputs, TensorKind kind, std::int64_t elements,
                TensorId buffer = {});

  std::size_t expected_ops() const;  // of the step, about
  // The schedule of this step, whose ops and tensors are those of writer() or copies of them.
  Schedule finish(ScheduleWriter step) const;

 private:
  struct Stage {
    StreamIds streams;
    TensorId dense_gradients, optimizer_state, replicated_gradients, gradient_squares, squares_of_all;
    std::vector<GradientSlice> slices;
    std::vector<LayerWeightIds> weights;  // by layer
    EndWeightIds end_weights;
  };
  const Stage& here() const { return stages_[static_cast<std::size_t>(stage_)]; }
  std::size_t count_place(int layer) const {
    return static_cast<std::size_t>(micro_batch_) * volumes_.size() + static_cast<std::size_t>(layer);
  }
  void add_streams(StreamIds& streams);
  Tensor tensor(TensorKind kind, int layer, std::int64_t elements) const;
  Tensor tensor_like(const Op& op, TensorKind kind, std::int64_t elements) const;
  void add_end_weights(EndWeightIds& ids);
  void add_weights(Stage& stage);
  void add_optimizer(Stage& stage);

  const std::optional<Experiment> micro_batch_of_;  // none: the experiment has one
  const Experiment& experiment_;
  const Plan& plan_;
  Parallelism groups_;
  StageLayout layout_;
  std::vector<LayerVolumes> volumes_;          // by layer
  std::vector<std::vector<TokenPart>> parts_;  // by layer
  ScheduleWriter writer_;
  std::vector<CollectiveStep> all_to_all_steps_;
  std::vector<Stage> stages_;
  std::vector<RowCountIds> row_counts_;  // by micro-batch and layer
  EndVolumes ends_;
  DeferredOps deferred_;
  bool delaying_ = false;
  int stage_ = 0, micro_batch_ = 0;
  bool recomputing_ = false;
  OpId recomputing_after_;
};

// While it lives, parts of the forward pass that are built are built again for the backward pass: from what was kept
// and after the op `begin`, which is the one that the backward pass of the layer waits for.
class Recomputation {
 public:
  Recomputation(StepContext& c, OpId begin) : c_(c) { c_.begin_recomputing(begin); }
  ~Recomputation() { c_.end_recomputing(); }
  Recomputation(const Recomputation&) = delete;
  Recomputation& operator=(const Recomputation&) = delete;

 private:
  StepContext& c_;
};

inline bool exchanges(const StepContext& c) {
  return c.groups().ep > 1;
}
// Tells whether rows are gathered over shards; a plan may bring the shards' weights or rows together otherwise.
inline bool gathers(const StepContext& c) {
  return c.plan().expert_sharding == ExpertSharding::Ep && c.groups().esp > 1 && !c.groups().repeats_tokens();
}
// Tells whether all shards' ranks get the same rows, so that they only need to sum what their experts make of these.
inline bool sums(const StepContext& c) {
  return c.groups().esp > 1 && c.groups().repeats_tokens();
}

}  // namespace dovetail::builder

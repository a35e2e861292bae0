// SPDX-License-Identifier: Apache-2.0
// The work of each op kind of an MoE layer: kernels, device-memory traffic, messages. No cost model.
#pragma once
#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "models/plan/collectives/step.hpp"
#include "models/plan/plan.hpp"
#include "models/question/extension_sizes.hpp"
#include "models/question/volumes.hpp"
#include "models/schedule/op.hpp"
#include "models/schedule/schedule_writer.hpp"

namespace dovetail {

// The kernels of one op. Products in the backward pass are two: the gradients of the input and of the weights.
class KernelList {
 public:
  // `dtype`: of the kernels that are added. `widens`: weight gradients add up in a wider format than their factors.
  // `half`: of the two gradients that a product has in the backward pass.
  explicit KernelList(bool widens, std::optional<DType> dtype = {}, Half half = Half::Both)
      : widens_(widens), dtype_(dtype), half_(half) {}

  void add(const KernelShape& shape, double times = 1, int launches = 1, std::int64_t readers = 1);
  void add_product(Phase phase, std::int64_t rows, std::int64_t columns, std::int64_t inner, std::int64_t groups = 1);
  // For those that follow.
  void set_dtype(std::optional<DType> dtype) { dtype_ = dtype; }
  void set_half(Half half) { half_ = half; }
  void set_share(double share) { share_ = share; }  // of the layers that have them: of times and of launches

  std::span<const KernelUse> all() const { return {kernels_.data(), count_}; }
  int launches() const;  // in the mean of the layers

 private:
  bool widens_;
  std::optional<DType> dtype_;
  Half half_;
  double share_ = 1, launches_ = 0;
  std::array<KernelUse, 32> kernels_;
  std::size_t count_ = 0;
};

// Kernels of an op that device memory bounds, one after another.
struct MemoryPasses {
  Bytes traffic = {};  // read plus written
  double kernels = 0;  // in the mean of the layers
  double share = 1;    // of the layers that have those that follow
  int launches() const { return std::max(1, static_cast<int>(std::lround(kernels))); }
  void add(Bytes bytes) {
    traffic += share * bytes;
    kernels += share;
  }
};

class OpWork {
 public:
  // Shapes of kernels go to `writer`, whose schedule the works are for.
  OpWork(const LayerVolumes& volumes, const Experiment& experiment, const Plan& plan, ScheduleWriter& writer)
      : v_(volumes),
        model_(experiment.model),
        plan_(plan),
        extensions_(experiment.extensions),
        gate_sizes_(gate_sizes(experiment)),
        expert_sizes_(expert_sizes(experiment)),
        writer_(writer),
        workload_(experiment.workload),
        framework_(experiment.framework),
        widens_(workload_.widens_gradients()),
        products_(workload_.other_products()),
        size_(size_of(workload_.dtype)) {}

  // The same, of this half of backward ops.
  OpWork of_half(Half half) const {
    OpWork work = *this;
    work.half_ = half;
    return work;
  }

  // Attention is its first projections and then its kernels over the scores, with the output's projection. Chunked, the
  // first are one op and the rest is one op for each chunk.
  KernelWork attention(Phase phase) const;
  KernelWork projection(Phase phase) const;
  KernelWork down_projection(Phase phase) const;  // to the low ranks of latent attention
  KernelWork attention_chunk(Phase phase) const;
  KernelWork query_key_norm(Phase phase) const;
  // Norms over all heads that several ranks share: the sums of this rank's part, and those over all ranks.
  bool sums_over_ranks() const;
  KernelWork query_key_sums(Phase phase) const;
  ExchangeWork sum_over_ranks() const;
  KernelWork core_attention() const;  // forward, without the output's projection
  // `keeps`: the backward pass reads the activated rows instead of computing them again.
  KernelWork dense_ffn(Phase phase, bool keeps = true) const;
  KernelWork norm(Phase phase) const;            // of (T, M); backward with the gradient that comes past it
  KernelWork residual(std::size_t parts) const;  // the sum of that many tensors (T, M)
  // `from_sum`: what the gate looks at is there, without norms too.
  Work gate(Phase phase, bool from_sum = false) const;
  // Dense: products with (T, E, C) weights. Soft gates need the gradient of those too.
  KernelWork encode(Phase phase) const;
  KernelWork decode(Phase phase) const;
  Work expert(Phase phase, const ChunkRange& chunk, bool keeps = true) const;  // keeps: as of dense_ffn
  KernelWork restore_hidden(const ChunkRange& chunk) const;          // of the expert's forward GEMMs all but the last
  KernelWork shadowed_expert(Phase phase, bool keeps = true) const;  // one expert on this rank's own rows
  CopyWork copy(Bytes bytes) const;                                  // between device and pinned host memory
  // Rows are sent in the activations' format or in `wire`; an fp8 row carries an fp32 scale.
  // A peer group's exchange: its share of the whole all-to-all's message. Rows that stay cross no link, so the
  // other peers carry the message in equal parts.
  ExchangeWork all_to_all(const ChunkRange& chunk, Wire wire = Wire::Same) const;
  ExchangeWork score_exchange(const ChunkRange& chunk) const;                  // of an fp32 number for each row
  ExchangeWork gather_scores(const ChunkRange& chunk, Collective kind) const;  // the same over an expert's shards
  ExchangeWork count_exchange() const;  // of an fp32 number for each expert, from each rank
  ExchangeWork gather_counts() const;   // of such numbers, over the shards of an expert
  ExchangeWork all_to_all(const ChunkRange& chunk, Wire wire,
                          std::span<const CollectiveStep> steps) const;               // these steps of it
  KernelWork convert(const ChunkRange& chunk, std::int64_t copies, Wire wire) const;  // rows between the two formats
  HostWait host_sync() const;
  ExchangeWork mp(Collective collective, std::int64_t width) const;  // over the buffer (L, width)
  ExchangeWork mp(Collective collective) const { return mp(collective, v_.hidden); }
  KernelWork mtp_projection(Phase phase) const;              // a product (L, 2M) by (2M, M / mp)
  ExchangeWork send_gradients(std::int64_t elements) const;  // to another stage
  KernelWork add_gradients(std::int64_t elements) const;     // to others
  ExchangeWork esp(Collective collective, const ChunkRange& chunk,
                   Wire wire = Wire::Same) const;           // over a chunk's gathered rows
  ExchangeWork weight_shards(Collective collective) const;  // over the gathered weights of a rank's experts
  ExchangeWork shadow(Collective collective) const;         // the weights of one expert to all its peers, or back
  ExchangeWork reduce_gradients(Collective kind, GroupKind group, std::int64_t elements) const;  // in their format
  ExchangeWork gather_weights(GroupKind group, std::int64_t elements) const;
  ExchangeWork stage_send() const;                          // (T, M) to the next pipeline stage, or its gradient back
  KernelWork gradient_norm(std::int64_t parameters) const;  // the squares of so many gradients
  ExchangeWork reduce_gradient_norm() const;                // one number of all ranks
  // One Adam step of so many parameters, and the framework's passes over all gradients that the rank holds.
  KernelWork update(std::int64_t parameters, std::int64_t held) const;

 private:
  ExchangeWork collective(Collective collective, GroupKind group, std::int64_t elements) const;
  KernelWork memory(std::int64_t elements) const;
  KernelWork moving_rows(std::int64_t elements, std::int64_t token_passes) const;
  KernelWork dense_order(bool to_rows, bool weight_gradient, std::int64_t elements) const;
  // Their flops, launches and shapes. `memory` is what else the op reads and writes; casts are added to it.
  KernelWork of(const KernelList& kernels, MemoryPasses memory = {}) const;
  // The work that a sub-module of the user's own states, with other traffic of the op.
  KernelWork stated(const StatedWork& work, Bytes traffic = {}) const;
  KernelWork gate_kernels(Phase phase, Bytes traffic) const;
  KernelWork order(OrderStep step, const KernelWork& own) const;
  // In a layer that is the mean of layers with attention and others, what follows is of the first or of the second.
  void set_share(double share, KernelList& kernels, MemoryPasses& memory) const;
  KernelWork in_mean(KernelWork work, int small, int of_recurrence) const;  // with these launches of small kernels
  void add_all_projections(KernelList& kernels, Phase phase, MemoryPasses& memory) const;
  void add_up_projections(KernelList& kernels, Phase phase) const;
  void add_output_gate(const HeadVolumes& heads, Phase phase, MemoryPasses& memory) const;
  // For the heads of layers with attention: those of all of them, or first those of layers without windows.
  template <class Add>
  void for_heads(KernelList& kernels, MemoryPasses& memory, Add add) const;
  // Layers with a recurrence (recurrence_work.cpp).
  bool recurrent() const { return v_.recurrence_share > 0; }
  void add_recurrence_projections(KernelList& kernels, Phase phase) const;
  void add_states(KernelList& kernels, Phase phase, MemoryPasses& memory) const;
  int recurrence_passes(Phase phase) const;  // kernels of add_states() that device memory bounds
  void add_index(KernelList& kernels, Phase phase, MemoryPasses& memory) const;
  void add_core(KernelList& kernels, Phase phase, MemoryPasses& memory) const;
  void add_scores(KernelList& kernels, Phase phase, MemoryPasses& memory) const;  // with the output's projection
  // Passes that the workload counts with whole layers.
  KernelWork without_norm(KernelWork work, Phase phase) const;  // which is an op of its own then
  void add_rotary(MemoryPasses& memory) const;
  void add_turns(KernelWork& work) const;
  // Whether queries and keys are turned once they have their norms, and not once they are projected.
  bool turned_after_norm() const;
  void add_activation(Phase phase, MemoryPasses& memory) const;
  void add_gate_passes(Phase phase, MemoryPasses& memory) const;
  KernelWork with_activated(KernelWork work, Phase phase, bool keeps, std::int64_t rows, std::int64_t columns) const;
  void add_flash(const HeadVolumes& heads, KernelList& kernels, Phase phase) const;
  void add_eager(const HeadVolumes& heads, KernelList& kernels, Phase phase, MemoryPasses& memory) const;
  // Products in a narrower format cast their left factor themselves. Their right factor has a pass of its own, which
  // reads the workload's format and writes that of products.
  Bytes cast(std::int64_t elements) const;
  void add_casts(Phase phase, std::int64_t experts, std::int64_t rows, int matrices, MemoryPasses& memory) const;
  Bytes row_casts(Phase phase, std::int64_t rows, int matrices) const;  // of the gradients of rows
  bool soft() const { return v_.routing_entries == 0; }
  bool makes_inputs() const { return half_ != Half::Weights; }
  bool makes_weights(Phase phase) const { return phase != Phase::Forward && half_ != Half::Inputs; }
  double passes(Phase phase) const { return (makes_inputs() ? 1 : 0) + (makes_weights(phase) ? 1 : 0); }
  KernelList product_list() const { return KernelList(widens_, products_, half_); }
  // The experts' matrices, but `left_out` of them; expert_runs: each matrix by `runs` runs of rows, over the experts.
  KernelWork custom_expert(Phase phase, const ChunkRange& chunk) const;
  KernelWork expert_gemms(Phase phase, const ChunkRange& chunk, int left_out = 0) const;
  KernelWork expert_runs(Phase phase, std::int64_t experts, std::int64_t runs, std::int64_t rows, int left_out) const;
  Bytes wire_bytes(const ChunkRange& chunk, Wire wire) const;

  const LayerVolumes& v_;
  const Model& model_;
  const Plan& plan_;
  const Extensions& extensions_;
  GateSizes gate_sizes_;
  ExpertSizes expert_sizes_;
  ScheduleWriter& writer_;
  const Workload& workload_;
  const TrainingFramework& framework_;
  bool widens_;                    // weight gradients add up in a wider format than their factors
  std::optional<DType> products_;  // where products have a format of their own
  Bytes size_;                     // of an element
  Half half_ = Half::Both;
};

// The size of a row of M elements in a message, counted in elements of the wire's type. Not for Wire::Same.
DType wire_dtype(Wire wire);
std::int64_t wire_row_elements(Wire wire, std::int64_t hidden);

}  // namespace dovetail

// The work of each op kind of an MoE layer: kernels, device-memory traffic, messages. No cost model.
#pragma once
#include <span>

#include "models/plan/collectives/step.hpp"
#include "models/plan/plan.hpp"
#include "models/question/experiment.hpp"
#include "models/question/volumes.hpp"
#include "models/schedule/op.hpp"
#include "models/schedule/schedule_writer.hpp"

namespace dovetail {

// The kernels of one op. Products in the backward pass are two: the gradients of the input and of the weights.
class KernelList {
 public:
  void add(const KernelShape& shape, double times = 1, int launches = 1);
  void add_product(Phase phase, std::int64_t rows, std::int64_t columns, std::int64_t inner);

  std::span<const KernelUse> all() const { return {kernels_.data(), count_}; }

 private:
  std::array<KernelUse, 12> kernels_;
  std::size_t count_ = 0;
};

class OpWork {
 public:
  // Shapes of kernels go to `writer`, whose schedule the works are for.
  OpWork(const LayerVolumes& volumes, const Experiment& experiment, const Plan& plan, ScheduleWriter& writer)
      : v_(volumes),
        model_(experiment.model),
        plan_(plan),
        writer_(writer),
        size_(size_of(experiment.workload.dtype)),
        samples_(experiment.workload.batch) {}

  // Attention is its first projections and then a causal flash kernel, whose backward recomputes the scores, with the
  // output's projection. Chunked, the first are one op and the rest is one op for each chunk.
  KernelWork attention(Phase phase) const;
  KernelWork projection(Phase phase) const;
  KernelWork attention_chunk(Phase phase) const;
  KernelWork dense_ffn(Phase phase) const;
  KernelWork residual(std::size_t parts) const;  // the sum of that many tensors (T, M)
  Work gate(Phase phase) const;
  // Dense: products with (T, E, C) weights. Soft gates need the gradient of those too.
  KernelWork encode(Phase phase) const;
  KernelWork decode(Phase phase) const;
  Work expert(Phase phase, const ChunkRange& chunk) const;
  KernelWork restore_hidden(const ChunkRange& chunk) const;  // of the expert's forward GEMMs all but the last
  KernelWork shadowed_expert(Phase phase) const;             // one expert on this rank's own rows
  CopyWork copy(Bytes bytes) const;                          // between device and pinned host memory
  // Rows are sent in the activations' format or in `wire`; an fp8 row carries an fp32 scale.
  // A peer group's exchange: its share of the whole all-to-all's message. Rows that stay cross no link, so the
  // other peers carry the message in equal parts.
  ExchangeWork all_to_all(const ChunkRange& chunk, Wire wire = Wire::Same) const;
  ExchangeWork all_to_all(const ChunkRange& chunk, Wire wire,
                          std::span<const CollectiveStep> steps) const;               // these steps of it
  KernelWork convert(const ChunkRange& chunk, std::int64_t copies, Wire wire) const;  // rows between the two formats
  HostWait host_sync() const;
  ExchangeWork mp(Collective collective) const;  // over the (L, M) buffer
  ExchangeWork esp(Collective collective, const ChunkRange& chunk,
                   Wire wire = Wire::Same) const;           // over a chunk's gathered rows
  ExchangeWork weight_shards(Collective collective) const;  // over the gathered weights of a rank's experts
  ExchangeWork shadow(Collective collective) const;         // the weights of one expert to all its peers, or back
  ExchangeWork all_reduce(GroupKind group, std::int64_t elements) const;
  ExchangeWork stage_send() const;                   // (T, M) to the next pipeline stage, or its gradient back
  KernelWork update(std::int64_t parameters) const;  // one Adam step

 private:
  ExchangeWork collective(Collective collective, GroupKind group, std::int64_t elements) const;
  KernelWork memory(std::int64_t elements) const;
  KernelWork dense_order(bool to_rows, bool weight_gradient, std::int64_t elements) const;
  // Their flops, launches and shapes. `memory_traffic` is what else the op reads and writes.
  KernelWork of(const KernelList& kernels, Bytes memory_traffic = {}) const;
  void add_projections(KernelList& kernels, Phase phase) const;
  void add_scores(KernelList& kernels, Phase phase) const;  // with the output's projection
  bool soft() const { return v_.routing_entries == 0; }
  // The experts' matrices, but `left_out` of them; expert_runs: each matrix by `runs` runs of rows.
  KernelWork expert_gemms(Phase phase, const ChunkRange& chunk, int left_out = 0) const;
  KernelWork expert_runs(Phase phase, std::int64_t runs, std::int64_t rows, int left_out) const;
  Bytes wire_bytes(const ChunkRange& chunk, Wire wire) const;

  const LayerVolumes& v_;
  const Model& model_;
  const Plan& plan_;
  ScheduleWriter& writer_;
  Bytes size_;  // of an element
  int samples_;
};

// The size of a row of M elements in a message, counted in elements of the wire's type. Not for Wire::Same.
DType wire_dtype(Wire wire);
std::int64_t wire_row_elements(Wire wire, std::int64_t hidden);

}  // namespace dovetail

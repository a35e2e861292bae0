// The work of each op kind of an MoE layer: flops, device-memory traffic, messages. No cost model.
#pragma once
#include "models/experiment.hpp"
#include "models/op.hpp"
#include "models/volumes.hpp"

namespace dovetail {

class OpWork {
 public:
  OpWork(const LayerVolumes& volumes, DType dtype, const Plan& plan)
      : v_(volumes), size_(size_of(dtype)), layout_(plan.layout), row_tile_(plan.row_tile) {}

  Work attention(Phase phase) const;  // causal flash kernel: its backward recomputes the scores
  Work gate(Phase phase) const;
  Work encode(Phase phase) const;
  Work decode(Phase phase) const;
  Work expert(Phase phase, const ChunkRange& chunk) const;
  Work shadowed_expert(Phase phase) const;  // one expert on this rank's own rows
  // A peer group's exchange: its share of the whole all-to-all's message. What a rank keeps crosses no link, so the
  // other peers carry the message in equal parts.
  Work all_to_all(const ChunkRange& chunk) const;
  Work mp(Collective collective) const;                            // over the gathered (L, M) buffer
  Work esp(Collective collective, const ChunkRange& chunk) const;  // over the gathered rows of a chunk
  Work weight_shards(Collective collective) const;                 // over the gathered weights of a rank's experts
  Work shadow(Collective collective) const;  // the weights of one expert to all its peers, or back
  Work all_reduce(GroupKind group, std::int64_t elements) const;
  Work update(std::int64_t parameters) const;  // one Adam step

 private:
  Work collective(Collective collective, GroupKind group, std::int64_t elements) const;
  Work memory(std::int64_t elements) const;
  Work gemms(Phase phase, std::int64_t gemms, std::int64_t rows) const;  // each expert matrix by `gemms` runs of rows

  const LayerVolumes& v_;
  Bytes size_;  // of an element
  Layout layout_;
  int row_tile_;
};

}  // namespace dovetail

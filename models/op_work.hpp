// The work of each op kind of an MoE layer: flops, device-memory traffic, messages. No cost model.
#pragma once
#include "models/experiment.hpp"
#include "models/op.hpp"
#include "models/volumes.hpp"

namespace dovetail {

class OpWork {
 public:
  OpWork(const LayerVolumes& volumes, DType dtype, Encoding encoding = Encoding::Sparse)
      : v_(volumes), size_(size_of(dtype)), encoding_(encoding) {}

  Work attention(Phase phase) const;  // causal flash kernel: its backward recomputes the scores
  Work dense_ffn(Phase phase) const;
  Work residual(std::size_t parts) const;  // the sum of that many tensors (T, M)
  Work gate(Phase phase) const;
  // Dense: products with (T, E, C) weights. Soft gates need the gradient of those too.
  Work encode(Phase phase) const;
  Work decode(Phase phase) const;
  Work expert(Phase phase, std::int64_t rows) const;
  Work all_to_all(std::int64_t rows) const;
  Work mp(Collective collective) const;                      // over the gathered (L, M) buffer
  Work esp(Collective collective, std::int64_t rows) const;  // over the gathered rows of a chunk
  Work all_reduce(GroupKind group, std::int64_t elements) const;
  Work update(std::int64_t parameters) const;  // one Adam step

 private:
  Work collective(Collective collective, GroupKind group, std::int64_t elements) const;
  Work memory(std::int64_t elements) const;
  Work dense_order(int products, std::int64_t elements) const;
  bool soft() const { return v_.routing_entries == 0; }

  const LayerVolumes& v_;
  Bytes size_;  // of an element
  Encoding encoding_;
};

}  // namespace dovetail

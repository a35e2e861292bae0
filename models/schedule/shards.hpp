// SPDX-License-Identifier: Apache-2.0
// ZeRO-1 (Rajbhandari et al. 2020): each rank of a data-parallel group updates a shard of the weights, and keeps the
// optimizer's states of that shard alone. Gradients are scattered to their shards, weights gathered from them.
#pragma once
#include <cstdint>
#include <vector>

#include "models/question/volumes.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail {

// Elements [first, last) as equal shards, one for each member of a group in group order. The few elements left over,
// fewer than members, come last: they are summed by all and updated by all.
class Shards {
 public:
  Shards(RowRange all, int members) : all_(all), members_(members) {}

  std::int64_t size() const { return all_.size() / members_; }  // of a shard
  RowRange of(int member) const { return {all_.first + member * size(), all_.first + (member + 1) * size()}; }
  RowRange sharded() const { return {all_.first, all_.first + members_ * size()}; }
  RowRange rest() const { return {sharded().last, all_.last}; }
  std::int64_t updated() const { return size() + rest().size(); }  // by each member

 private:
  RowRange all_;
  int members_;
};

// Elements of a gradient tensor that a rank updates, as `copies` ranks do: ranks of its stage (of projections to low
// ranks also its model-parallel ones) and, of weights that two stages have, those of the other one.
struct GradientShare {
  TensorId tensor;
  RowRange elements;
  int copies = 1;
};
std::vector<GradientShare> gradient_shares(const Schedule& schedule, int rank_class, int rank);

// The elements of each gradient tensor of a rank class that one of its ranks updates, in ascending order: all of it,
// unless reductions of the schedule scatter it. Empty for other tensors.
IdVector<TensorId, std::vector<RowRange>> updated_ranges(const Schedule& schedule, int rank_class, int rank);

// The gradients that a rank exchanges, of weights that two stages have, in an op that sends or adds them: one range
// after the other.
struct GradientRange {
  TensorId tensor;
  RowRange elements;
};
std::vector<GradientRange> exchanged_ranges(const Schedule& schedule, const Op& op, int rank);

// The part of `ranges` (ascending) inside `part`.
std::vector<RowRange> intersect(const std::vector<RowRange>& ranges, RowRange part);

}  // namespace dovetail

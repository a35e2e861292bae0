// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/shards.hpp"

#include <algorithm>
#include <span>

#include "models/schedule/operands.hpp"

namespace dovetail {
namespace {

bool scatters_gradients(const Op& op) {
  return op.collective() == Collective::ReduceScatter &&
         (op.kind == OpKind::DenseGradientAllReduce || op.kind == OpKind::ExpertGradientAllReduce ||
          op.kind == OpKind::ReplicatedGradientAllReduce);
}

bool adds_shared_gradients(const Schedule& s, const Op& op) {
  return op.kind == OpKind::Residual && s.tensors[s.reads_of(op).front()].kind == TensorKind::SharedGradient;
}

// Whether another stage has all gradients of this one.
bool has_twin(const Schedule& s, int rank_class) {
  return std::ranges::any_of(s.ops, [&](const Op& op) {
    return s.class_of(op) == rank_class && op.gradients.size() == 0 && adds_shared_gradients(s, op);
  });
}

// The ranks of a stage that have the whole sums of such a gradient, if nothing scatters these.
int copies_of(const Parallelism& groups, TensorKind kind) {
  switch (kind) {
    case TensorKind::DenseGradients:
      return groups.dp;
    case TensorKind::ReplicatedGradients:
      return groups.stage_ranks();
    case TensorKind::ExpertGradient:
      return groups.edp;
    default:
      return 1;
  }
}

// Splits a share where it enters or leaves one of `further`, none of which overlap; their copies are times its own.
std::vector<GradientShare> split(GradientShare share, std::span<const GradientShare> further) {
  std::vector<GradientShare> parts;
  const auto add = [&](std::int64_t last, int times) {
    const RowRange part{share.elements.first, std::min(last, share.elements.last)};
    if (part.size() <= 0) return;
    parts.push_back({share.tensor, part, share.copies * times});
    share.elements.first = part.last;
  };
  for (const GradientShare& other : further) {
    if (share.tensor != other.tensor || other.elements.last <= share.elements.first) continue;
    add(other.elements.first, 1);
    if (share.elements.overlaps(other.elements)) add(other.elements.last, other.copies);
  }
  add(share.elements.last, 1);
  return parts;
}

// Dense gradients that ranks beyond the data-parallel group have too, in ascending order: of projections to low ranks,
// which all model-parallel ranks hold, and of an embedding that the stage exchanges with another one.
std::vector<GradientShare> further_copies(const Schedule& s, int rank_class) {
  std::vector<GradientShare> all;
  for (const Op& op : s.ops) {
    if (s.class_of(op) != rank_class || op.gradients.size() == 0) continue;
    const TensorId sums = s.writes_of(op).front();
    if (op.kind == OpKind::Projection && s.tensors[s.reads_of(op).front()].kind == TensorKind::LowRanks)
      all.push_back({sums, op.gradients, s.groups.mp});
    if (adds_shared_gradients(s, op)) all.push_back({sums, op.gradients, 2});
  }
  const auto first = [](const GradientShare& share) { return share.elements.first; };
  std::ranges::sort(all, {}, first);
  const auto of_later_micro_batches = std::ranges::unique(all, {}, first);
  all.erase(of_later_micro_batches.begin(), of_later_micro_batches.end());
  return all;
}

}  // namespace

IdVector<TensorId, std::vector<RowRange>> updated_ranges(const Schedule& schedule, int rank_class, int rank) {
  IdVector<TensorId, std::vector<RowRange>> updated(schedule.tensors.size());
  for (const GradientShare& share : gradient_shares(schedule, rank_class, rank))
    updated[share.tensor].push_back(share.elements);
  for (std::vector<RowRange>& ranges : updated) std::ranges::sort(ranges, {}, &RowRange::first);
  return updated;
}

std::vector<GradientShare> gradient_shares(const Schedule& schedule, int rank_class, int rank) {
  std::vector<GradientShare> shares;
  const std::vector<GradientShare> further = further_copies(schedule, rank_class);
  const int stages = has_twin(schedule, rank_class) ? 2 : 1;
  IdVector<TensorId, bool> scattered(schedule.tensors.size());
  const auto add = [&](TensorId tensor, RowRange elements, int in_as_many) {
    const int copies = stages * copies_of(schedule.groups, schedule.tensors[tensor].kind) / in_as_many;
    if (elements.size() <= 0) return;
    const std::vector<GradientShare> parts = split({tensor, elements, copies}, further);
    shares.insert(shares.end(), parts.begin(), parts.end());
  };
  for (const Op& op : schedule.ops) {
    if (!scatters_gradients(op) || schedule.class_of(op) != rank_class) continue;
    const TensorId sum = schedule.writes_of(op).front();
    const Subgroup group = group_comb(schedule.groups, op.group());
    const RowRange all = op.gradients.size() > 0 ? op.gradients : RowRange{0, schedule.tensors[sum].elements};
    const Shards shards(all, group.size);
    scattered[sum] = true;
    add(sum, shards.of(rank / group.stride % group.size), group.size);
    add(sum, shards.rest(), 1);
  }
  for (const TensorId id : schedule.tensors.ids()) {
    const Tensor& tensor = schedule.tensors[id];
    if (tensor.rank_class != rank_class || !tensor.persistent || !roles::all_gradients.covers(tensor)) continue;
    if (!scattered[id]) add(id, {0, tensor.elements}, 1);
  }
  return shares;
}

std::vector<GradientRange> exchanged_ranges(const Schedule& schedule, const Op& op, int rank) {
  std::vector<GradientRange> ranges;
  const bool of_all = op.gradients.size() == 0;
  IdVector<TensorId, std::vector<RowRange>> updated;
  if (of_all) updated = updated_ranges(schedule, schedule.class_of(op), rank);
  for (const TensorId id : schedule.reads_of(op)) {
    if (!roles::all_gradients.covers(schedule.tensors[id])) continue;
    if (!of_all) ranges.push_back({id, op.gradients});
    for (const RowRange& range : of_all ? updated[id] : std::vector<RowRange>()) ranges.push_back({id, range});
  }
  return ranges;
}

std::vector<RowRange> intersect(const std::vector<RowRange>& ranges, RowRange part) {
  std::vector<RowRange> common;
  for (const RowRange& range : ranges)
    if (const RowRange both{std::max(range.first, part.first), std::min(range.last, part.last)}; both.size() > 0)
      common.push_back(both);
  return common;
}

}  // namespace dovetail

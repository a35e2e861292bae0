#include "models/schedule/shards.hpp"

#include <algorithm>

#include "models/schedule/operands.hpp"

namespace dovetail {
namespace {

constexpr Role gradients = TensorKind::DenseGradients | TensorKind::ReplicatedGradients | TensorKind::RouterGradient |
                           TensorKind::ExpertGradient;

bool scatters_gradients(const Op& op) {
  return op.collective() == Collective::ReduceScatter &&
         (op.kind == OpKind::DenseGradientAllReduce || op.kind == OpKind::ExpertGradientAllReduce ||
          op.kind == OpKind::ReplicatedGradientAllReduce);
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

// Parts of the share inside and outside the elements that `stages` stages have.
void add_parts(const GradientShare& share, const GradientShare& on_stages, std::vector<GradientShare>& parts) {
  const auto add = [&](std::int64_t first, std::int64_t last, int stages) {
    const RowRange part{std::max(first, share.elements.first), std::min(last, share.elements.last)};
    if (part.first < part.last) parts.push_back({share.tensor, part, share.copies * stages});
  };
  if (share.tensor != on_stages.tensor) return parts.push_back(share);
  const RowRange shared = on_stages.elements;
  add(share.elements.first, shared.first, 1);
  add(shared.first, shared.last, on_stages.copies);
  add(shared.last, share.elements.last, 1);
}

// The gradient of an embedding that the stage exchanges with another one; no tensor where it has none.
GradientShare exchanged_embedding(const Schedule& s, int rank_class) {
  for (const Op& op : s.ops)
    if (op.kind == OpKind::Residual && s.class_of(op) == rank_class &&
        s.tensors[s.reads_of(op).front()].kind == TensorKind::SharedGradient)
      return {s.writes_of(op).front(), op.gradients, 2};
  return {};
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
  const GradientShare exchanged = exchanged_embedding(schedule, rank_class);
  IdVector<TensorId, bool> scattered(schedule.tensors.size());
  const auto add = [&](TensorId tensor, RowRange elements, int in_as_many) {
    const int copies = copies_of(schedule.groups, schedule.tensors[tensor].kind) / in_as_many;
    if (elements.size() > 0) add_parts({tensor, elements, copies}, exchanged, shares);
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
    if (tensor.rank_class != rank_class || !tensor.persistent || !gradients.covers(tensor)) continue;
    if (!scattered[id]) add(id, {0, tensor.elements}, 1);
  }
  return shares;
}

std::vector<RowRange> intersect(const std::vector<RowRange>& ranges, RowRange part) {
  std::vector<RowRange> common;
  for (const RowRange& range : ranges)
    if (const RowRange both{std::max(range.first, part.first), std::min(range.last, part.last)}; both.size() > 0)
      common.push_back(both);
  return common;
}

}  // namespace dovetail

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
  IdVector<TensorId, bool> scattered(schedule.tensors.size());
  const auto add = [&](TensorId tensor, RowRange elements, int in_as_many) {
    const int copies = copies_of(schedule.groups, schedule.tensors[tensor].kind) / in_as_many;
    if (elements.size() > 0) shares.push_back({tensor, elements, copies});
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

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

void add(RowRange range, std::vector<RowRange>& ranges) {
  if (range.size() > 0) ranges.push_back(range);
}

}  // namespace

IdVector<TensorId, std::vector<RowRange>> updated_ranges(const Schedule& schedule, int rank_class, int rank) {
  IdVector<TensorId, std::vector<RowRange>> updated(schedule.tensors.size());
  for (const Op& op : schedule.ops) {
    if (!scatters_gradients(op) || schedule.class_of(op) != rank_class) continue;
    const TensorId sum = schedule.writes_of(op).front();
    const Subgroup group = group_comb(schedule.groups, op.group());
    const RowRange all = op.gradients.size() > 0 ? op.gradients : RowRange{0, schedule.tensors[sum].elements};
    const Shards shards(all, group.size);
    add(shards.of(rank / group.stride % group.size), updated[sum]);
    add(shards.rest(), updated[sum]);
  }
  for (const TensorId id : schedule.tensors.ids()) {
    const Tensor& tensor = schedule.tensors[id];
    if (tensor.rank_class != rank_class || !tensor.persistent || !gradients.covers(tensor)) continue;
    if (updated[id].empty()) updated[id].push_back({0, tensor.elements});
    std::ranges::sort(updated[id], {}, &RowRange::first);
  }
  return updated;
}

std::vector<RowRange> intersect(const std::vector<RowRange>& ranges, RowRange part) {
  std::vector<RowRange> common;
  for (const RowRange& range : ranges)
    add({std::max(range.first, part.first), std::min(range.last, part.last)}, common);
  return common;
}

}  // namespace dovetail

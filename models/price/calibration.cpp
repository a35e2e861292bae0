#include "models/price/calibration.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/base/errors.hpp"
#include "models/base/names.hpp"

namespace dovetail {
namespace {

CollectiveCost interpolate(const CollectiveCost& low, const CollectiveCost& high, int gpus) {
  const double share = static_cast<double>(gpus - low.gpus) / (high.gpus - low.gpus);
  CollectiveCost cost = low;
  cost.gpus = gpus;
  cost.alpha = low.alpha + share * (high.alpha - low.alpha);
  cost.beta = low.beta + share * (high.beta - low.beta);
  cost.provenance.source += fmt::format(", interpolated to {} GPUs", gpus);
  return cost;
}

std::vector<CollectiveCost> entries_of(const Calibration& calibration, Collective collective, LinkKind link) {
  std::vector<CollectiveCost> entries;
  for (const CollectiveCost& cost : calibration.collectives)
    if (cost.collective == collective && cost.link == link) entries.push_back(cost);
  return entries;
}

std::vector<CollectiveCost> standing_in(const Calibration& calibration, Collective collective, Collective other,
                                        LinkKind link) {
  std::vector<CollectiveCost> entries = entries_of(calibration, other, link);
  for (CollectiveCost& cost : entries) {
    cost.collective = collective;
    cost.provenance = {Origin::Assumed, fmt::format("as {} of the same buffer: {}", name_in(collective_names, other),
                                                    cost.provenance.source)};
  }
  return entries;
}

}  // namespace

CollectiveCost find_cost(const Calibration& calibration, Collective collective, GroupShape group, int gpus_per_node) {
  const LinkKind link = group.crosses_nodes() ? LinkKind::Inter : LinkKind::Intra;
  std::vector<CollectiveCost> entries = entries_of(calibration, collective, link);
  if (entries.empty() && collective == Collective::Broadcast)
    entries = standing_in(calibration, collective, Collective::AllGather, link);
  if (entries.empty() && collective == Collective::Reduce)
    entries = standing_in(calibration, collective, Collective::ReduceScatter, link);
  if (entries.empty() && collective == Collective::Send)
    entries = standing_in(calibration, collective, Collective::AllToAll, link);
  if (entries.empty())
    throw InputError(fmt::format("calibration {} has no {} cost on {} links, needed by a group of {} ranks on {} nodes",
                                 calibration.name, name_in(collective_names, collective),
                                 name_in(link_kind_names, link), group.ranks, group.nodes));
  std::ranges::sort(entries, {}, &CollectiveCost::gpus);
  const int gpus = group.nodes * gpus_per_node;
  const auto above = std::ranges::lower_bound(entries, gpus, {}, &CollectiveCost::gpus);
  if (above == entries.end()) return entries.back();
  if (above == entries.begin() || above->gpus == gpus) return *above;
  return interpolate(*(above - 1), *above, gpus);
}

const MessageCost* find_message(const Calibration& calibration, LinkKind link, Protocol protocol) {
  for (const MessageCost& cost : calibration.messages)
    if (cost.link == link && cost.protocol == protocol) return &cost;
  return nullptr;
}

const GemmCost& find_gemm(const Calibration& calibration, DType dtype) {
  std::string known;
  for (const GemmCost& cost : calibration.gemms) {
    if (cost.dtype == dtype) return cost;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", name_in(dtype_names, cost.dtype));
  }
  throw InputError(fmt::format("calibration {} has no GEMM cost for {}; it has {}", calibration.name,
                               name_in(dtype_names, dtype), known));
}

const KernelCost* find_kernel(const Calibration& calibration, OpKind op, Phase phase) {
  for (const KernelCost& cost : calibration.kernels)
    if (cost.op == op && cost.phase == phase) return &cost;
  return nullptr;
}

const MemoryCost& find_copy(const Calibration& calibration) {
  if (calibration.copy) return *calibration.copy;
  throw InputError(
      fmt::format("calibration {} has no cost of copies to host memory, needed to offload", calibration.name));
}

}  // namespace dovetail

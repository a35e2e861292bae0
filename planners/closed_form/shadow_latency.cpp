// SPDX-License-Identifier: Apache-2.0
#include "planners/closed_form/shadow_latency.hpp"

#include <algorithm>
#include <numeric>

#include "models/plan/expert_sharding.hpp"
#include "models/price/collective_price.hpp"
#include "planners/closed_form/layer_times.hpp"

namespace dovetail::planners {
namespace {

bool layers_alike(const Experiment& e) {
  return e.workload.routing.kind != RoutingKind::Trace;
}

Seconds time_of(const Experiment& e, Collective collective, Bytes bytes) {
  const CollectivePrice cost = find_cost(*e.calibration, collective, place_of(e.parallelism, GroupKind::Ep, e.cluster));
  const ResourceTime time = cost.of(bytes);
  return time.fixed + time.busy;
}

}  // namespace

ShadowLatency::ShadowLatency(const Experiment& experiment, const Plan& plan) : e_(experiment) {
  const LayerTimes times = layer_times(e_, plan);
  const LayerVolumes v = layer_volumes(e_, plan);
  const RowRange all{0, v.capacity};
  const Seconds comp = times.forward.moe.expert.work / static_cast<double>(v.expert_rows(all));
  const std::int64_t sent_rows = v.all_to_all_elements(all) / v.row_width;
  const Seconds feat = times.forward.moe.all_to_all.work / static_cast<double>(sent_rows);
  per_row_ = e_.workload.phases == Phases::Training ? 3 * comp + 4 * feat : comp + 2 * feat;
  const Bytes expert = static_cast<double>(v.worked_parameters()) * size_of(e_.workload.dtype);
  per_expert_ = time_of(e_, Collective::Broadcast, expert);
  if (e_.workload.phases == Phases::Training) per_expert_ += time_of(e_, Collective::Reduce, expert);

  total_.resize(static_cast<std::size_t>(e_.model.experts));
  largest_.resize(total_.size());
  for (int layer = 0; layer < e_.workload.all_layers(); ++layer) {
    if (!times.is_moe(layer)) continue;
    ++moe_layers_;
    if (layers_alike(e_) && !loads_.empty()) continue;
    auto& of_layer = loads_.emplace_back();
    for (int rank = 0; rank < e_.parallelism.stage_ranks(); ++rank) {
      const auto& load = of_layer.emplace_back(expert_loads(e_, layer, rank));
      for (std::size_t i = 0; i < load.size(); ++i) {
        total_[i] += static_cast<double>(load[i]);
        largest_[i] = std::max(largest_[i], load[i]);
      }
    }
  }
  by_load_.resize(total_.size());
  std::iota(by_load_.begin(), by_load_.end(), 0);
  std::ranges::stable_sort(by_load_, std::greater(), [&](int e) { return total_[static_cast<std::size_t>(e)]; });
  by_largest_ = by_load_;
  std::ranges::stable_sort(by_largest_, std::greater(), [&](int e) { return largest_[static_cast<std::size_t>(e)]; });
}

std::vector<int> ShadowLatency::smallest_set(std::size_t count, std::size_t left) const {
  const std::size_t local = experts_of_an_owner();
  std::vector<int> set(by_largest_.begin(), by_largest_.begin() + static_cast<std::ptrdiff_t>(count));
  std::vector<std::size_t> remaining(by_largest_.size() / local, local);
  const auto owner = [local](int expert) { return static_cast<std::size_t>(expert) / local; };
  for (int expert : set) --remaining[owner(expert)];
  for (std::size_t i = count; i < by_largest_.size(); ++i)
    if (std::size_t& more = remaining[owner(by_largest_[i])]; more > left) {
      --more;
      set.push_back(by_largest_[i]);
    }
  return set;
}

double ShadowLatency::imbalance() const {
  const double sum = std::reduce(total_.begin(), total_.end());
  return total_[static_cast<std::size_t>(by_load_.front())] * static_cast<double>(total_.size()) / sum;
}

double ShadowLatency::fullest_rank(const std::vector<std::vector<std::int64_t>>& loads,
                                   const std::vector<bool>& shadowed) const {
  const std::size_t local = experts_of_an_owner();
  std::vector<double> rows(loads.size());
  for (int rank = 0; rank < static_cast<int>(loads.size()); ++rank) {
    const std::vector<int> members = group_members(e_.parallelism, GroupKind::Ep, rank);
    const std::vector<std::int64_t>& load = loads[static_cast<std::size_t>(rank)];
    for (std::size_t expert = 0; expert < load.size(); ++expert) {
      const int worker = shadowed[expert] ? rank : members[expert / local];
      rows[static_cast<std::size_t>(worker)] += static_cast<double>(load[expert]);
    }
  }
  return *std::ranges::max_element(rows);
}

Seconds ShadowLatency::of(std::size_t count) const {
  std::vector<bool> shadowed(total_.size());
  for (std::size_t i = 0; i < count; ++i) shadowed[static_cast<std::size_t>(by_load_[i])] = true;
  Seconds sum;
  for (const auto& loads : loads_) sum += fullest_rank(loads, shadowed) * per_row_;
  return moe_layers_ / static_cast<double>(loads_.size()) * sum + of_weights(count);
}

std::size_t ShadowLatency::experts_to_shadow() const {
  std::size_t count = 0;
  while (count + 1 < total_.size() && of(count + 1) < of(count)) ++count;
  return count;
}

}  // namespace dovetail::planners

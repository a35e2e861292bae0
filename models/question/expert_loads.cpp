// SPDX-License-Identifier: Apache-2.0
#include "models/question/expert_loads.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/base/errors.hpp"
#include "models/question/volumes.hpp"

namespace dovetail {
namespace {

std::vector<double> shares(const Experiment& e, int layer, int rank) {
  const RoutingModel& model = e.workload.routing;
  std::vector<double> share(static_cast<std::size_t>(e.model.experts), 1);
  switch (model.kind) {
    case RoutingKind::Router:
    case RoutingKind::Uniform:
      break;  // see even_loads()
    case RoutingKind::Zipf:
      for (std::size_t i = 0; i < share.size(); ++i) share[i] = std::pow(static_cast<double>(i + 1), -model.exponent);
      break;
    case RoutingKind::Hot:
      share.assign(share.size(), (1 - model.hot_share) / std::max(1, e.model.experts - 1));
      share[static_cast<std::size_t>(model.hot_expert)] = model.hot_share;
      break;
    case RoutingKind::Trace: {
      check(!model.layers.empty(), "a routing trace that was not read");
      const LoadTable& table = model.layers[static_cast<std::size_t>(layer) % model.layers.size()];
      share = table[static_cast<std::size_t>(rank / e.parallelism.token_repeats()) % table.size()];
      break;
    }
  }
  return share;
}

// In proportion to the shares, none above `most`; shares of 0 get something only when all others are full.
std::vector<double> fill(std::vector<double> share, double total, double most) {
  std::vector<double> load(share.size());
  std::vector<bool> full(share.size());
  for (std::size_t round = 0; round <= 2 * share.size(); ++round) {
    double sum = 0, rest = total;
    for (std::size_t i = 0; i < share.size(); ++i) (full[i] ? rest : sum) += full[i] ? -most : share[i];
    if (sum <= 0) {
      std::ranges::fill(share, 1);
      sum = static_cast<double>(std::ranges::count(full, false));
    }
    bool changed = false;
    for (std::size_t i = 0; i < share.size(); ++i) {
      if (full[i]) continue;
      load[i] = rest * (share[i] / sum);
      if (load[i] < most) continue;
      load[i] = most;
      full[i] = changed = true;
    }
    if (!changed) break;
  }
  return load;
}

// Whole numbers of the same sum: the largest fractions are rounded up.
std::vector<std::int64_t> round_to(const std::vector<double>& load, std::int64_t total) {
  std::vector<std::int64_t> whole(load.size());
  std::vector<std::size_t> order(load.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto fraction = [&](std::size_t i) { return load[i] - std::floor(load[i]); };
  std::ranges::stable_sort(order, std::greater(), fraction);
  for (std::size_t i = 0; i < load.size(); ++i) whole[i] = static_cast<std::int64_t>(std::floor(load[i]));
  std::int64_t left = total - std::accumulate(whole.begin(), whole.end(), std::int64_t{0});
  for (std::size_t i : order) {
    if (left == 0) break;
    ++whole[i];
    --left;
  }
  return whole;
}

// As alike as whole numbers allow, the first experts with one more: what fill() and round_to() make of equal shares.
std::vector<std::int64_t> even_loads(std::int64_t total, int experts) {
  std::vector<std::int64_t> loads(static_cast<std::size_t>(experts), total / experts);
  std::fill_n(loads.begin(), total % experts, total / experts + 1);
  return loads;
}

bool is_even(const RoutingModel& routing) {
  return routing.kind == RoutingKind::Router || routing.kind == RoutingKind::Uniform;
}

// visit(loads, times) for every layer and recorded rank, where those differ; otherwise once. `times`: of how many
// layers and ranks it is.
template <class Visit>
void for_each_load(const Experiment& e, Visit visit) {
  const RoutingModel& routing = e.workload.routing;
  const std::int64_t all = e.parallelism.token_ranks(), repeats = e.parallelism.token_repeats();
  if (routing.kind != RoutingKind::Trace) return visit(0, expert_loads(e, 0, 0), e.workload.all_layers() * all);
  for (int layer = 0; layer < e.workload.all_layers(); ++layer) {
    const auto table = routing.layers[static_cast<std::size_t>(layer) % routing.layers.size()].size();
    const auto recorded = static_cast<std::int64_t>(table);  // rank r of those does as r mod recorded did
    for (std::int64_t rank = 0; rank < std::min(recorded, all); ++rank)
      visit(layer, expert_loads(e, layer, static_cast<int>(rank * repeats)), (all - rank - 1) / recorded + 1);
  }
}

}  // namespace

std::vector<std::int64_t> expert_loads(const Experiment& e, int layer, int rank) {
  const std::int64_t tokens = std::int64_t{e.workload.batch} * e.workload.sequence / e.parallelism.token_shares();
  const std::int64_t choices = tokens * e.workload.top_k;
  if (is_even(e.workload.routing)) return even_loads(choices, e.model.experts);
  return round_to(fill(shares(e, layer, rank), static_cast<double>(choices), static_cast<double>(tokens)), choices);
}

RoutingSummary summarize_routing(const Experiment& e) {
  RoutingSummary summary;
  if (e.model.dense()) return summary;
  const std::int64_t capacity = layer_volumes(e).capacity;
  std::vector<std::vector<double>> of_layer(static_cast<std::size_t>(e.workload.all_layers()));
  for_each_load(e, [&](int layer, const std::vector<std::int64_t>& loads, std::int64_t times) {
    std::vector<double>& sum = of_layer[static_cast<std::size_t>(layer)];
    sum.resize(loads.size());
    for (std::size_t i = 0; i < loads.size(); ++i) {
      sum[i] += static_cast<double>(times * loads[i]);
      summary.choices += times * loads[i];
      summary.largest = std::max(summary.largest, loads[i]);
      if (e.workload.gate.token_choice()) summary.dropped += times * std::max<std::int64_t>(0, loads[i] - capacity);
    }
  });
  for (const std::vector<double>& sum : of_layer) {
    if (sum.empty()) continue;
    const double mean = std::accumulate(sum.begin(), sum.end(), 0.0) / static_cast<double>(sum.size());
    summary.imbalance = std::max(summary.imbalance, std::ranges::max(sum) / mean);
  }
  return summary;
}

std::int64_t largest_load(const Experiment& e) {
  std::int64_t largest = 0;
  for_each_load(e, [&](int, const std::vector<std::int64_t>& loads, std::int64_t) {
    largest = std::max(largest, std::ranges::max(loads));
  });
  return largest;
}

}  // namespace dovetail

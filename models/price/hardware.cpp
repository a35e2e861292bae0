// SPDX-License-Identifier: Apache-2.0
#include "models/price/hardware.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "models/base/dtype.hpp"
#include "models/base/json/quantity.hpp"
#include "models/base/names.hpp"
#include "models/price/collective_price.hpp"

namespace dovetail {
namespace {

constexpr double same = 1e-9;  // ratios of rates that differ by rounding alone

void assume(Provenance& provenance, double times) {
  provenance.origin = Origin::Assumed;
  provenance.source += fmt::format(", rate x {:.4g} for other hardware", times);
}

bool same_work(const GemmCost& a, const GemmCost& b) {
  return a.dtype == b.dtype;
}

bool same_work(const CollectiveCost& a, const CollectiveCost& b) {
  return a.collective == b.collective && a.link == b.link && a.gpus == b.gpus &&
         a.members_per_node == b.members_per_node;
}

// The entry in `before` that one of `now` was: the one at its place, of which a setting may have changed any field, or
// where entries came or went the one for the same work. Null: there was none.
template <class Cost>
const Cost* before_settings(const std::vector<Cost>& before, const std::vector<Cost>& now, const Cost& cost) {
  if (before.size() == now.size()) return &before[static_cast<std::size_t>(&cost - now.data())];
  const auto found = std::ranges::find_if(before, [&](const Cost& each) { return same_work(each, cost); });
  return found == before.end() ? nullptr : &*found;
}

template <class Cost>
bool keeps_rate(const std::vector<Cost>& before, const std::vector<Cost>& now, const Cost& cost) {
  const Cost* was = before_settings(before, now, cost);
  return was != nullptr && was->beta == cost.beta;
}

bool same_waits(const GemmCost& a, const GemmCost& b) {
  return a.alpha == b.alpha;
}

bool same_waits(const CollectiveCost& a, const CollectiveCost& b) {
  const auto waits = [](const CollectiveCost& c) {
    const Latency latency = c.latency.value_or(Latency{});
    return std::tuple(c.alpha, c.latency.has_value(), latency.hops, latency.inside, latency.between);
  };
  return waits(a) == waits(b);
}

template <class Cost>
bool keeps_times(const std::vector<Cost>& before, const std::vector<Cost>& now, const Cost& cost) {
  const Cost* was = before_settings(before, now, cost);
  return was != nullptr && was->beta == cost.beta && same_waits(*was, cost);
}

// Removes tables; their names.
template <class Which>
std::string forget(std::vector<KernelTable>& tables, const Which& which) {
  std::vector<std::string> names;
  std::erase_if(tables, [&](const KernelTable& table) {
    if (!which(table)) return false;
    names.push_back(
        fmt::format("{} in {}", name_in(kernel_kind_names, table.kind()), name_in(dtype_names, table.dtype())));
    return true;
  });
  return fmt::format("{}", fmt::join(names, ", "));
}

// Both halves share tables.
void forget_contradicted_products(Calibration& c, const Calibration& before) {
  for (const GemmCost& gemm : c.gemms) {
    if (keeps_times(before.gemms, c.gemms, gemm)) continue;
    const std::string names = forget(c.tables, [&](const KernelTable& table) {
      const bool same = table.dtype() == gemm.dtype || (is_half(table.dtype()) && is_half(gemm.dtype));
      return computes(table.kind()) && same;
    });
    if (!names.empty())
      c.adapted.push_back(
          fmt::format("calibration.gemms sets products in {}: the tables of measured shapes of {} no longer count, and "
                      "these kernels take the time of their flops",
                      name_in(dtype_names, gemm.dtype), names));
  }
}

void forget_contradicted_collectives(Calibration& c, const Calibration& before) {
  for (const CollectiveCost& cost : c.collectives) {
    if (cost.link != LinkKind::Intra || keeps_times(before.collectives, c.collectives, cost)) continue;
    const std::string names = forget(c.tables, [&](const KernelTable& table) {
      return is_collective(table.kind()) && collective_of(table.kind()) == cost.collective;
    });
    if (!names.empty())
      c.adapted.push_back(
          fmt::format("calibration.collectives sets {} inside a node: its table of measured sizes no longer counts",
                      name_in(collective_names, cost.collective)));
  }
}

class Adaptation {
 public:
  Adaptation(Calibration& calibration, const Cluster& cluster, const Calibration& before)
      : c_(calibration), before_(before), from_(*calibration.hardware), to_(hardware_of(cluster)) {}

  void products() {
    std::erase_if(c_.gemms,
                  [&](const GemmCost& gemm) { return lacks(gemm.dtype) && keeps_rate(before_.gemms, c_.gemms, gemm); });
    std::erase_if(c_.tables, [&](const KernelTable& table) {
      return computes(table.kind()) && lacks(table.dtype()) && !half_of(table.dtype());
    });
    for (SustainedRate& rate : c_.sustained) {
      rate.burst = rate.burst * peak_times(rate.dtype);
      rate.rate = rate.rate * peak_times(rate.dtype);
    }
    for (GemmCost& gemm : c_.gemms) {
      const double times = peak_times(gemm.dtype);
      if (times == 1 || !keeps_rate(before_.gemms, c_.gemms, gemm)) continue;
      speed_up(gemm, times);
      tell(fmt::format("device.peak.{} is", name_in(dtype_names, gemm.dtype)), to_.peak.at(gemm.dtype),
           from_.peak.at(gemm.dtype), "products and attention");
    }
  }

  void memory() {
    const double times = ratio(to_.memory_bandwidth, from_.memory_bandwidth);
    if (times == 1) return;
    bool any = has_tables(computes);
    any |= scale_memory(c_.memory, &before_.memory, times);
    if (c_.strided_copy)
      any |= scale_memory(*c_.strided_copy, before_.strided_copy ? &*before_.strided_copy : nullptr, times);
    if (any)
      tell("device.memory_bandwidth is", to_.memory_bandwidth, from_.memory_bandwidth,
           "kernels bound by device memory");
  }

  // A table knows both rates.
  void tables() {
    part_halves();
    for (KernelTable& table : c_.tables) {
      if (computes(table.kind()))
        scale(table, {.peak = peak_times(table.dtype()),
                      .memory_bandwidth = ratio(to_.memory_bandwidth, from_.memory_bandwidth)});
      else
        scale(table, {.node_bandwidth = ratio(to_.node_bandwidth, from_.node_bandwidth)});
    }
  }

  void links() {
    if (links(LinkKind::Intra, ratio(to_.node_bandwidth, from_.node_bandwidth)))
      tell("node_bandwidth is", to_.node_bandwidth, from_.node_bandwidth, "exchanges inside a node");
    if (links(LinkKind::Inter, ratio(to_.card_share, from_.card_share)))
      tell("nic_bandwidth gives each GPU", to_.card_share, from_.card_share, "exchanges between nodes");
  }

  // Shares of a speed are taken to stay.
  void interference() {
    for (Interference& pair : c_.interference)
      if (std::exchange(pair.provenance.origin, Origin::Assumed) != Origin::Assumed)
        pair.provenance.source += ", on other hardware";
  }

 private:
  template <class Cost>
  static void speed_up(Cost& cost, double times) {
    cost.beta = cost.beta / times;
    if (cost.outside.beta) cost.outside.beta = *cost.outside.beta / times;
    assume(cost.provenance, times);
  }

  static void scale(KernelTable& table, const RateChange& change) {
    std::string what;
    for (const auto& [name, times] : {std::pair{"peak", change.peak},
                                      {"memory bandwidth", change.memory_bandwidth},
                                      {"node bandwidth", change.node_bandwidth}})
      if (times != 1) what += fmt::format(", {} x {:.4g}", name, times);
    if (what.empty()) return;
    table.scale(change);
    table.provenance.origin = Origin::Assumed;
    table.provenance.source += what + " for other hardware";
  }

  template <class Rate>
  static double ratio(Rate here, Rate there) {
    const double times = here / there;
    return there.value() <= 0 || here.value() <= 0 || std::abs(times - 1) < same ? 1 : times;
  }

  // A cluster that gives no rate at all is taken to have these.
  bool lacks(DType dtype) const { return !to_.peak.empty() && from_.peak.contains(dtype) && !to_.peak.contains(dtype); }
  bool half_of(DType dtype) const {
    return is_half(dtype) && (to_.peak.contains(DType::Bf16) || to_.peak.contains(DType::Fp16));
  }

  // fp16 and bf16 share a table where only one was measured. If their peaks change apart, each gets its own.
  void part_halves() {
    if (peak_times(DType::Bf16) == peak_times(DType::Fp16)) return;
    std::vector<KernelTable> own;
    for (const KernelTable& table : c_.tables)
      for (const DType other : {DType::Bf16, DType::Fp16})
        if (const KernelTable* like = find_table(c_.tables, table.kind(), other);
            is_half(table.dtype()) && like->dtype() != other)
          own.push_back(like->in(other));
    c_.tables.insert(c_.tables.end(), own.begin(), own.end());
  }

  // One where the peak is not known on both sides.
  double peak_times(DType dtype) const {
    const auto here = to_.peak.find(dtype), there = from_.peak.find(dtype);
    return here == to_.peak.end() || there == from_.peak.end() ? 1 : ratio(here->second, there->second);
  }

  bool has_tables(bool (*which)(KernelKind)) const {
    return std::ranges::any_of(c_.tables, [&](const KernelTable& table) { return which(table.kind()); });
  }

  // These say whether any cost follows.
  static bool scale_memory(MemoryCost& cost, const MemoryCost* was, double times) {
    if (was == nullptr || was->beta != cost.beta) return false;
    speed_up(cost, times);
    return true;
  }

  bool links(LinkKind link, double times) {
    if (times == 1) return false;
    bool any = link == LinkKind::Intra && has_tables(is_collective);
    for (CollectiveCost& cost : c_.collectives) {
      if (cost.link != link || !keeps_rate(before_.collectives, c_.collectives, cost)) continue;
      speed_up(cost, times);
      any = true;
    }
    for (MessageCost& cost : c_.messages)
      if (cost.link == link && scale_message(cost, times)) any = true;
    return any;
  }

  bool scale_message(MessageCost& cost, double times) const {
    const MessageCost* was = find_message(before_, cost.link, cost.protocol);
    bool any = false;
    for (BytesPerSecond MessageCost::*rate : {&MessageCost::bandwidth, &MessageCost::peer_bandwidth}) {
      if (was == nullptr || was->*rate != cost.*rate) continue;
      cost.*rate = cost.*rate * times;
      any = true;
    }
    if (any) assume(cost.provenance, times);
    return any;
  }

  template <class Rate>
  void tell(const std::string& setting, Rate here, Rate there, const char* what) {
    c_.adapted.push_back(
        fmt::format("cluster.{} {}, and {} was made for {}: {} are assumed to run at {:.4g} times its rates", setting,
                    format_quantity(here), c_.name, format_quantity(there), what, here / there));
  }

  Calibration& c_;
  const Calibration& before_;
  const Hardware from_;
  const Hardware to_;
};

}  // namespace

Hardware hardware_of(const Cluster& cluster) {
  return {cluster.device.peak, cluster.device.memory_bandwidth, cluster.node_bandwidth, card_share(cluster)};
}

void adapt(Calibration& calibration, const Cluster& cluster, const Calibration& before) {
  const bool of_other_hardware = !calibration.adapted.empty();
  forget_contradicted_products(calibration, before);
  forget_contradicted_collectives(calibration, before);
  if (!calibration.hardware) return;
  const std::size_t told = calibration.adapted.size();
  Adaptation adaptation(calibration, cluster, before);
  adaptation.tables();
  adaptation.products();
  adaptation.memory();
  adaptation.links();
  if (of_other_hardware || calibration.adapted.size() > told) adaptation.interference();
  calibration.hardware = hardware_of(cluster);
}

}  // namespace dovetail

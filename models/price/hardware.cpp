#include "models/price/hardware.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

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

class Adaptation {
 public:
  Adaptation(Calibration& calibration, const Cluster& cluster)
      : c_(calibration), from_(*calibration.hardware), to_(hardware_of(cluster)) {}

  void products() {
    std::erase_if(c_.gemms, [&](const GemmCost& gemm) { return lacks(gemm.dtype); });
    std::erase_if(c_.tables, [&](const KernelTable& table) {
      return computes(table.kind()) && lacks(table.dtype()) && !half_of(table.dtype());
    });
    for (GemmCost& gemm : c_.gemms) {
      const double times = peak_times(gemm.dtype);
      if (times == 1) continue;
      gemm.beta = gemm.beta / times;
      assume(gemm.provenance, times);
      tell(fmt::format("device.peak.{} is", name_in(dtype_names, gemm.dtype)), to_.peak.at(gemm.dtype),
           from_.peak.at(gemm.dtype), "products and attention");
    }
  }

  void memory() {
    const double times = ratio(to_.memory_bandwidth, from_.memory_bandwidth);
    if (times == 1) return;
    for (MemoryCost* cost : {&c_.memory, c_.strided_copy ? &*c_.strided_copy : nullptr}) {
      if (cost == nullptr) continue;
      cost->beta = cost->beta / times;
      assume(cost->provenance, times);
    }
    tell("device.memory_bandwidth is", to_.memory_bandwidth, from_.memory_bandwidth, "kernels bound by device memory");
  }

  // A table knows both rates.
  void tables(const CostsSet& set) {
    if (!set.products) part_halves();
    for (KernelTable& table : c_.tables) {
      if (computes(table.kind()))
        scale(table, {.peak = set.products ? 1 : peak_times(table.dtype()),
                      .memory_bandwidth = set.memory ? 1 : ratio(to_.memory_bandwidth, from_.memory_bandwidth)});
      else
        scale(table, {.node_bandwidth = set.links ? 1 : ratio(to_.node_bandwidth, from_.node_bandwidth)});
    }
  }

  void links() {
    links(LinkKind::Intra, ratio(to_.node_bandwidth, from_.node_bandwidth));
    links(LinkKind::Inter, ratio(to_.card_share, from_.card_share));
    if (ratio(to_.node_bandwidth, from_.node_bandwidth) != 1)
      tell("node_bandwidth is", to_.node_bandwidth, from_.node_bandwidth, "exchanges inside a node");
    if (ratio(to_.card_share, from_.card_share) != 1)
      tell("nic_bandwidth gives each GPU", to_.card_share, from_.card_share, "exchanges between nodes");
  }

  // Shares of a speed are taken to stay.
  void interference() {
    for (Interference& pair : c_.interference)
      if (std::exchange(pair.provenance.origin, Origin::Assumed) != Origin::Assumed)
        pair.provenance.source += ", on other hardware";
  }

 private:
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

  void links(LinkKind link, double times) {
    if (times == 1) return;
    for (CollectiveCost& cost : c_.collectives)
      if (cost.link == link) {
        cost.beta = cost.beta / times;
        assume(cost.provenance, times);
      }
    for (MessageCost& cost : c_.messages)
      if (cost.link == link) {
        cost.bandwidth = cost.bandwidth * times;
        cost.peer_bandwidth = cost.peer_bandwidth * times;
        assume(cost.provenance, times);
      }
  }

  template <class Rate>
  void tell(const std::string& setting, Rate here, Rate there, const char* what) {
    c_.adapted.push_back(
        fmt::format("cluster.{} {}, and {} was made for {}: {} are assumed to run at {:.4g} times its rates", setting,
                    format_quantity(here), c_.name, format_quantity(there), what, here / there));
  }

  Calibration& c_;
  const Hardware from_;
  const Hardware to_;
};

}  // namespace

Hardware hardware_of(const Cluster& cluster) {
  return {cluster.device.peak, cluster.device.memory_bandwidth, cluster.node_bandwidth, card_share(cluster)};
}

void adapt(Calibration& calibration, const Cluster& cluster, const CostsSet& set) {
  const auto forget = [&](const auto& which, const char* note) {
    if (std::erase_if(calibration.tables, [&](const KernelTable& t) { return which(t.kind()); }) > 0)
      calibration.adapted.emplace_back(note);
  };
  if (set.products)
    forget(computes, "calibration.gemms was set: kernels take the time of their flops, not of their shapes");
  if (set.links)
    forget(
        is_collective,
        "a cost of links was set: collectives inside a node take alpha + n beta, not what was measured by their size");
  if (!calibration.hardware) return;
  Adaptation adaptation(calibration, cluster);
  adaptation.tables(set);
  if (!set.products) adaptation.products();
  if (!set.memory) adaptation.memory();
  if (!set.links) adaptation.links();
  if (!calibration.adapted.empty()) adaptation.interference();
  calibration.hardware = hardware_of(cluster);
}

}  // namespace dovetail

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

std::string place(std::string_view list, std::size_t i, std::string_view value = {}) {
  return fmt::format("{}.{}{}{}", list, i, value.empty() ? "" : ".", value);
}

class Adaptation {
 public:
  Adaptation(Calibration& calibration, const Cluster& cluster, const CostsSet& set)
      : c_(calibration), from_(*calibration.hardware), to_(hardware_of(cluster)), set_(set) {}

  void products() {
    for (std::size_t i = 0; i < c_.gemms.size(); ++i) {
      GemmCost& gemm = c_.gemms[i];
      const double times = peak_times(gemm.dtype);
      if (times == 1 || set_.gives(place("gemms", i, "beta"))) continue;
      speed_up(gemm, times);
      tell(fmt::format("device.peak.{} is", name_in(dtype_names, gemm.dtype)), to_.peak.at(gemm.dtype),
           from_.peak.at(gemm.dtype), "products and attention");
    }
    std::erase_if(c_.gemms, [&](const GemmCost& gemm) { return lacks(gemm.dtype); });
    std::erase_if(c_.tables, [&](const KernelTable& table) {
      return computes(table.kind()) && lacks(table.dtype()) && !half_of(table.dtype());
    });
  }

  void memory() {
    const double times = ratio(to_.memory_bandwidth, from_.memory_bandwidth);
    if (times == 1) return;
    bool changed = false;
    for (const auto& [name, cost] :
         {std::pair{"memory.beta", &c_.memory}, {"strided_copy.beta", c_.strided_copy ? &*c_.strided_copy : nullptr}}) {
      if (cost == nullptr || set_.gives(name)) continue;
      speed_up(*cost, times);
      changed = true;
    }
    if (changed)
      tell("device.memory_bandwidth is", to_.memory_bandwidth, from_.memory_bandwidth,
           "kernels bound by device memory");
  }

  // A table knows both rates.
  void tables() {
    part_halves();
    const double memory = set_.gives("memory.beta") ? 1 : ratio(to_.memory_bandwidth, from_.memory_bandwidth);
    const double node = ratio(to_.node_bandwidth, from_.node_bandwidth);
    for (KernelTable& table : c_.tables)
      scale(table, computes(table.kind()) ? RateChange{.peak = peak_times(table.dtype()), .memory_bandwidth = memory}
                                          : RateChange{.node_bandwidth = node});
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

  // Whether any cost has changed.
  bool links(LinkKind link, double times) {
    bool changed = false;
    if (times == 1) return changed;
    for (std::size_t i = 0; i < c_.collectives.size(); ++i)
      if (c_.collectives[i].link == link && !set_.gives(place("collectives", i, "beta"))) {
        speed_up(c_.collectives[i], times);
        changed = true;
      }
    for (std::size_t i = 0; i < c_.messages.size(); ++i)
      if (MessageCost& cost = c_.messages[i]; cost.link == link) {
        const bool given = set_.gives(place("messages", i, "bandwidth"));
        if (!given) cost.bandwidth = cost.bandwidth * times;
        if (!set_.gives(place("messages", i, "peer_bandwidth"))) cost.peer_bandwidth = cost.peer_bandwidth * times;
        if (given) continue;
        assume(cost.provenance, times);
        changed = true;
      }
    return changed || (link == LinkKind::Intra && std::ranges::any_of(c_.tables, [](const KernelTable& table) {
                         return is_collective(table.kind());
                       }));
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
  const CostsSet& set_;
};

bool serves(const KernelTable& table, DType dtype) {
  return table.dtype() == dtype || (is_half(table.dtype()) && is_half(dtype));
}

// A table would count before the entries that the user has touched.
void leave_out_tables(Calibration& c, const CostsSet& set) {
  const auto forget = [&](const auto& which, const char* note) {
    if (std::erase_if(c.tables, which) > 0) c.adapted.emplace_back(note);
  };
  for (std::size_t i = 0; i < c.gemms.size(); ++i) {
    if (!set.touches(place("gemms", i))) continue;
    const DType dtype = c.gemms[i].dtype;
    forget([&](const KernelTable& table) { return computes(table.kind()) && serves(table, dtype); },
           "calibration.gemms was set: kernels take the time of their flops, not of their shapes");
  }
  for (std::size_t i = 0; i < c.collectives.size(); ++i) {
    const CollectiveCost& cost = c.collectives[i];
    if (cost.link != LinkKind::Intra || !set.touches(place("collectives", i))) continue;
    forget(
        [&](const KernelTable& table) {
          return is_collective(table.kind()) && collective_of(table.kind()) == cost.collective;
        },
        "a cost of links was set: its collectives inside a node take alpha + n beta, not what was measured by their "
        "size");
  }
}

}  // namespace

Hardware hardware_of(const Cluster& cluster) {
  return {cluster.device.peak, cluster.device.memory_bandwidth, cluster.node_bandwidth, card_share(cluster)};
}

bool CostsSet::gives(std::string_view place) const {
  return std::ranges::any_of(places, [&](const std::string& set) {
    return place.starts_with(set) && (place.size() == set.size() || place[set.size()] == '.');
  });
}

bool CostsSet::touches(std::string_view place) const {
  return gives(place) ||
         std::ranges::any_of(places, [&](const std::string& set) { return CostsSet{{std::string(place)}}.gives(set); });
}

void adapt(Calibration& calibration, const Cluster& cluster, const CostsSet& set) {
  leave_out_tables(calibration, set);
  if (!calibration.hardware) return;
  Adaptation adaptation(calibration, cluster, set);
  adaptation.tables();
  adaptation.products();
  adaptation.memory();
  adaptation.links();
  if (!calibration.adapted.empty()) adaptation.interference();
  calibration.hardware = hardware_of(cluster);
}

}  // namespace dovetail

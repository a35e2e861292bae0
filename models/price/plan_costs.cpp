#include "models/price/plan_costs.hpp"

#include <fmt/format.h>

#include "models/base/names.hpp"
#include "models/plan/expert_sharding.hpp"
#include "models/plan/refuse.hpp"
#include "models/price/calibration.hpp"

namespace dovetail {

void require_costs(const Experiment& e) {
  const auto at = [](const char* pointer, const auto& look) {
    try {
      look();
    } catch (const InputError& error) {
      throw InputError(Location{"", 0, 0, pointer}, error.message());
    }
  };
  at("/workload/dtype", [&] { find_gemm(*e.calibration, e.workload.dtype); });
  if (const auto products = e.workload.other_products())
    at("/workload/products", [&] { require_products(*e.calibration, *products); });
}

void require_costs(const Plan& p, const Experiment& e) {
  const Parallelism groups = exchange_groups(p, e.parallelism);
  if (p.protocol == Protocol::Simple || groups.ep == 1) return;
  const int on_node = ranks_per_node(groups, GroupKind::Ep, e.cluster);
  for (const auto& [name, link] : link_kind_names) {
    const bool used = link == LinkKind::Intra ? on_node > 1 : on_node < groups.ep;
    if (used && find_message(*e.calibration, link, Protocol::LowLatency) == nullptr)
      refuse("protocol",
             fmt::format("{} needs the cost of low_latency messages on {} links, which calibration {} lacks",
                         name_in(protocol_names, p.protocol), name, e.calibration->name));
  }
}

}  // namespace dovetail

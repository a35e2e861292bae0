// SPDX-License-Identifier: Apache-2.0
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

namespace {

void require_multiprocessors(const Plan& p, const Experiment& e) {
  if (p.comm_sms == 0) return;
  const int all = e.cluster.device.multiprocessors;
  if (all == 0)
    refuse("comm_sms",
           fmt::format("needs to know how many multiprocessors a {} has (device.multiprocessors of cluster {})",
                       e.cluster.device.name, e.cluster.name));
  if (p.comm_sms >= all)
    refuse("comm_sms", fmt::format("{} of {} multiprocessors leave none for computation", p.comm_sms, all));
  for (const KernelKind kind : {KernelKind::Dispatch, KernelKind::Combine})
    if (find_table(e.calibration->tables, kind) == nullptr)
      refuse("comm_sms", fmt::format("needs the times of {} by multiprocessors, which calibration {} lacks",
                                     name_in(kernel_kind_names, kind), e.calibration->name));
}

}  // namespace

void require_costs(const Plan& p, const Experiment& e) {
  require_multiprocessors(p, e);
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

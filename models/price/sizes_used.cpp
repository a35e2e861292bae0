// SPDX-License-Identifier: Apache-2.0
#include "models/price/sizes_used.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "models/base/json/quantity.hpp"
#include "models/base/names.hpp"
#include "models/base/overloaded.hpp"
#include "models/price/calibration.hpp"
#include "models/price/collective_price.hpp"
#include "models/price/kernel_price.hpp"

namespace dovetail {
namespace {

constexpr double far_outside = 2;  // by choice: a line reaches somewhat further than its points

class SizesUsed {
 public:
  SizesUsed(const Schedule& schedule, const Experiment& experiment)
      : s_(schedule),
        e_(experiment),
        gemm_(find_gemm(*experiment.calibration, experiment.workload.dtype)),
        by_shape_(KernelPrices(*experiment.calibration, experiment.workload.dtype, experiment.workload.other_products())
                      .tells_kernels_apart()) {}

  std::vector<std::string> outside() {
    for (const Op& op : s_.ops)
      std::visit(
          Overloaded{[&](const KernelWork& work) { use(work); }, [&](const ExchangeWork& work) { use(work); },
                     [&](const CopyWork& work) { use("copies to the host", find_copy(*e_.calibration), work.bytes); },
                     [](const auto&) {}},
          *op.work);
    return std::move(notes_);
  }

 private:
  void use(const KernelWork& work) {
    const MemoryCost& memory = e_.calibration->memory;
    if (!by_shape_ && work.gemms > 0) use("products", gemm_, work.flops / work.gemms);
    if (work.memory_kernels > 0)
      use("kernels bound by device memory", memory, work.memory_traffic / work.memory_kernels);
  }

  // All-to-alls by their messages and in steps have other costs.
  void use(const ExchangeWork& work) {
    const bool all_to_all = work.collective == Collective::AllToAll;
    if (work.collective == Collective::None || !work.steps.empty() || work.to_nodes + work.in_node > Bytes(0) ||
        (all_to_all && !e_.calibration->messages.empty()))
      return;
    const auto [known, fresh] = prices_.try_emplace({work.collective, work.group});
    if (fresh) known->second = find_cost(*e_.calibration, work.collective, place_of(s_.groups, work.group, e_.cluster));
    const CollectivePrice& price = known->second;
    if (price.by_size == nullptr && price.provenance.fit != nullptr)
      use(fmt::format("{} ({})", name_in(collective_names, price.collective), name_in(link_kind_names, price.link)),
          price, work.message);
  }

  template <class Cost, class Amount>
  void use(std::string_view what, const Cost& cost, Amount size) {
    if (cost.provenance.fit == nullptr || size <= Amount(0)) return;
    const MeasuredSizes measured = measured_sizes(cost.provenance);
    const bool above = size.value() > measured.most;
    if (measured.distance(size.value()) <= far_outside || (!above && knows_alpha(cost))) return;
    const bool of_base = above ? cost.outside.beta.has_value() : cost.outside.alpha.has_value();
    keep({std::string(what), above}, size.value(), [&] {
      const char* const base =
          above ? "beyond them it has the rate of its base" : "below them it has the alpha of its base";
      return fmt::format("{}: {} measured from {} to {}, and used {} {}: {}", e_.calibration->name, what,
                         format_quantity(Amount(measured.least)), format_quantity(Amount(measured.most)),
                         above ? "up to" : "down to", format_quantity(size), of_base ? base : "extrapolated");
    });
  }

  // The note of the size that is furthest away.
  template <class Note>
  void keep(const std::pair<std::string, bool>& side, double size, Note note) {
    const auto [known, fresh] = furthest_.try_emplace(side, size, notes_.size());
    auto& [furthest, place] = known->second;
    if (fresh) {
      notes_.push_back(note());
    } else if (side.second ? size > furthest : size < furthest) {
      furthest = size;
      notes_[place] = note();
    }
  }

  const Schedule& s_;
  const Experiment& e_;
  const GemmCost& gemm_;
  const bool by_shape_;
  std::map<std::pair<Collective, GroupKind>, CollectivePrice> prices_;
  std::map<std::pair<std::string, bool>, std::pair<double, std::size_t>> furthest_;  // the size, and its note
  std::vector<std::string> notes_;
};

}  // namespace

std::vector<std::string> sizes_outside(const Schedule& schedule, const Experiment& experiment) {
  return SizesUsed(schedule, experiment).outside();
}

}  // namespace dovetail

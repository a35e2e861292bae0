// SPDX-License-Identifier: Apache-2.0
#include "models/price/cost_ranges.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/base/draws.hpp"
#include "models/base/names.hpp"

namespace dovetail {
namespace {

constexpr double least_within = 1.02;  // measured again, times differ
constexpr const char* launches = "launches of kernels";
constexpr double assumed_rate = 1.3, assumed_between = 1.75, assumed_latency = 2, assumed_slowing = 2;

double within_of_fit(const Fit& fit) {
  std::vector<double> errors;
  for (const FitPoint& point : fit.points) errors.push_back(std::abs(std::log1p(point.error)));
  if (errors.empty()) return least_within;
  const auto at = errors.begin() + static_cast<std::ptrdiff_t>(std::ceil(.9 * static_cast<double>(errors.size())) - 1);
  std::ranges::nth_element(errors, at);
  return std::max(least_within, std::exp(*at));
}

double within_of(const Provenance& provenance, double assumed) {
  if (provenance.within > 0) return provenance.within;
  if (provenance.fit != nullptr) return within_of_fit(*provenance.fit);
  switch (provenance.origin) {
    case Origin::Published:
      return 1.1;
    case Origin::Measured:
      return 1.08;
    case Origin::Fitted:
      return 1.15;
    case Origin::Assumed:
      break;
  }
  return assumed;
}

// Multiplies by this power of the factor within which a cost is known.
template <class Cost>
void put_off(Cost& cost, double within, double ends) {
  cost = cost * std::pow(within, ends);
}

// The same of a rate. Sizes that were not measured are off by more.
template <class Cost>
void put_rate_off(Cost& cost, double within, double ends) {
  put_off(cost.beta, within, ends);
  if (cost.outside.beta) put_off(*cost.outside.beta, within, ends);
  cost.outside.off = ends;
}

const char* place_name(LinkKind link) {
  return link == LinkKind::Inter ? "between nodes" : "inside a node";
}

// Machines with the same processor differ by so much in nine of ten shapes (see the header).
double between_machines(KernelKind kind) {
  if (is_collective(kind)) return 1.07;
  return kind == KernelKind::Attention || kind == KernelKind::AttentionBackward ? 1.05 : 1.2;
}

// The share of its speed that an op keeps where the time that it loses is multiplied.
double slowed(double speed, double times) {
  return 1 / (1 + (1 / speed - 1) * times);
}

}  // namespace

CostRanges::CostRanges(const Calibration& calibration) : calibration_(calibration) {
  const auto each = [this](const auto& costs, void (CostRanges::*add_cost)(std::size_t)) {
    for (std::size_t i = 0; i < costs.size(); ++i) (this->*add_cost)(i);
  };
  each(calibration.collectives, &CostRanges::add_collective);
  each(calibration.messages, &CostRanges::add_messages);
  each(calibration.tables, &CostRanges::add_table);
  each(calibration.gemms, &CostRanges::add_gemm);
  each(calibration.kernels, &CostRanges::add_kernel);
  each(calibration.training, &CostRanges::add_training);
  each(calibration.sustained, &CostRanges::add_sustained);
  each(calibration.interference, &CostRanges::add_interference);
  add_memory_costs();
  if (!calibration.host) return;
  const double launch = within_of(calibration.host->provenance, assumed_latency);
  add("launches by the host", calibration.host->provenance.origin, launch,
      [launch](Calibration& c, double ends, std::uint64_t) { put_off(c.host->launch, launch, ends); });
  if (calibration.host->profile.empty()) return;
  const Provenance& times = calibration.host->profile.provenance;
  const double work = within_of(times, assumed_latency);
  add("the framework's work on the host", times.origin, work,
      [work](Calibration& c, double ends, std::uint64_t) { put_off(c.host->pace, work, ends); });
}

void CostRanges::add(const std::string& name, Origin origin, double within, Put put) {
  const auto found = std::ranges::find(costs_, name, &UncertainCost::name);
  const auto cost = static_cast<std::size_t>(found - costs_.begin());
  if (found == costs_.end()) {
    costs_.push_back({name, origin, within});
    puts_.emplace_back();
  }
  costs_[cost].within = std::max(costs_[cost].within, within);
  puts_[cost].push_back(std::move(put));
}

// Inside a node a table of the same collective counts in place of the entry.
void CostRanges::add_collective(std::size_t i) {
  const CollectiveCost& cost = calibration_.collectives[i];
  const auto by_size = [&](const auto& kernel) {
    const auto& [name, kind] = kernel;
    return name == name_in(collective_names, cost.collective) && find_table(calibration_.tables, kind, DType::Bf16);
  };
  if (cost.link == LinkKind::Intra && std::ranges::any_of(collective_kernels, by_size)) return;
  const bool assumed = cost.provenance.origin == Origin::Assumed;
  const std::string_view what = assumed ? "exchanges" : name_in(collective_names, cost.collective);
  const double rate = within_of(cost.provenance, cost.link == LinkKind::Inter ? assumed_between : assumed_rate);
  const double start = within_of(cost.provenance, assumed_latency);
  const auto put_rate = [i, rate](Calibration& c, double ends, std::uint64_t) {
    put_rate_off(c.collectives[i], rate, ends);
  };
  const auto put_start = [i, start](Calibration& c, double ends, std::uint64_t) {
    CollectiveCost& to = c.collectives[i];
    put_off(to.alpha, start, ends);
    if (to.outside.alpha) put_off(*to.outside.alpha, start, ends);
    if (!to.latency) return;
    put_off(to.latency->inside, start, ends);
    put_off(to.latency->between, start, ends);
  };
  const std::string name = fmt::format("{} {}", what, place_name(cost.link));
  add(name, cost.provenance.origin, rate, put_rate);
  add(assumed ? fmt::format("latency {}", place_name(cost.link)) : name, cost.provenance.origin, start, put_start);
}

void CostRanges::add_messages(std::size_t i) {
  const MessageCost& cost = calibration_.messages[i];
  const double rate = within_of(cost.provenance, assumed_rate), start = within_of(cost.provenance, assumed_latency);
  add(fmt::format("messages {}", place_name(cost.link)), cost.provenance.origin, rate,
      [i, rate](Calibration& c, double ends, std::uint64_t) {
        c.messages[i].bandwidth = c.messages[i].bandwidth / std::pow(rate, ends);
        c.messages[i].peer_bandwidth = c.messages[i].peer_bandwidth / std::pow(rate, ends);
      });
  add(fmt::format("latency of messages {}", place_name(cost.link)), cost.provenance.origin, start,
      [i, start](Calibration& c, double ends, std::uint64_t) { put_off(c.messages[i].per_message, start, ends); });
}

void CostRanges::add_table(std::size_t i) {
  const KernelTable& table = calibration_.tables[i];
  const std::string format =
      computes(table.kind()) ? fmt::format(" ({})", name_in(dtype_names, table.dtype())) : std::string();
  const double within = within_of(table.provenance, assumed_rate);
  add(fmt::format("{} {}{}", name_in(kernel_kind_names, table.kind()),
                  is_collective(table.kind()) ? place_name(LinkKind::Intra) : "by shape", format),
      table.provenance.origin, within, [i, within](Calibration& c, double ends, std::uint64_t seed) {
        KernelTable& to = c.tables[i];
        to.deviate({std::pow(within, ends), seed == 0 ? ends : 0, seed, between_machines(to.kind())});
      });
}

void CostRanges::add_gemm(std::size_t i) {
  const GemmCost& cost = calibration_.gemms[i];
  const double rate = within_of(cost.provenance, assumed_rate), launch = within_of(cost.provenance, assumed_latency);
  add(fmt::format("GEMM ({})", name_in(dtype_names, cost.dtype)), cost.provenance.origin, rate,
      [i, rate](Calibration& c, double ends, std::uint64_t) { put_rate_off(c.gemms[i], rate, ends); });
  add(launches, cost.provenance.origin, launch,
      [i, launch](Calibration& c, double ends, std::uint64_t) { put_off(c.gemms[i].alpha, launch, ends); });
}

void CostRanges::add_kernel(std::size_t i) {
  const KernelCost& cost = calibration_.kernels[i];
  const double within = within_of(cost.provenance, assumed_rate);
  add(fmt::format("{} {}", name_in(op_kind_names, cost.op), name_in(phase_names, cost.phase)), cost.provenance.origin,
      within, [i, within](Calibration& c, double ends, std::uint64_t) {
        put_off(c.kernels[i].alpha, within, ends);
        put_off(c.kernels[i].factor, within, ends);
        if (std::optional<WorkRates>& rates = c.kernels[i].rates) {
          put_off(rates->products, within, ends);
          put_off(rates->attention, within, ends);
          put_off(rates->outputs, within, ends);
          put_off(rates->memory, within, ends);
        }
      });
}

void CostRanges::add_training(std::size_t i) {
  const TrainingKernel& cost = calibration_.training[i];
  const double within = within_of(cost.provenance, assumed_rate);
  add(fmt::format("{} by others", name_in(kernel_kind_names, cost.kernel)), cost.provenance.origin, within,
      [i, within](Calibration& c, double ends, std::uint64_t) {
        c.training[i].times = std::max(1.0, c.training[i].times * std::pow(within, ends));
      });
}

void CostRanges::add_sustained(std::size_t i) {
  const SustainedRate& cost = calibration_.sustained[i];
  const double within = within_of(cost.provenance, assumed_rate);
  add(fmt::format("sustained rate ({})", name_in(dtype_names, cost.dtype)), cost.provenance.origin, within,
      [i, within](Calibration& c, double ends, std::uint64_t) {
        SustainedRate& to = c.sustained[i];
        to.rate = std::min(to.burst, to.rate / std::pow(within, ends));
      });
}

void CostRanges::add_memory_costs() {
  const auto rate = [&](const char* name, const MemoryCost& cost, MemoryCost& (*of)(Calibration&)) {
    const double within = within_of(cost.provenance, assumed_rate);
    add(name, cost.provenance.origin, within,
        [of, within](Calibration& c, double ends, std::uint64_t) { put_rate_off(of(c), within, ends); });
    const double launch = within_of(cost.provenance, assumed_latency);
    add(launches, cost.provenance.origin, launch,
        [of, launch](Calibration& c, double ends, std::uint64_t) { put_off(of(c).alpha, launch, ends); });
  };
  rate("device memory", calibration_.memory, [](Calibration& c) -> MemoryCost& { return c.memory; });
  if (calibration_.l2_cache) {  // with the memory: too few plans rest on it for a cost of its own
    const double within = within_of(calibration_.l2_cache->provenance, assumed_rate);
    add("device memory", calibration_.memory.provenance.origin, 1,
        [within](Calibration& c, double ends, std::uint64_t) {
          c.l2_cache->bandwidth = c.l2_cache->bandwidth / std::pow(within, ends);
        });
  }
  if (calibration_.strided_copy)
    rate("strided copies", *calibration_.strided_copy, [](Calibration& c) -> MemoryCost& { return *c.strided_copy; });
  if (calibration_.copy)
    rate("copies to the host", *calibration_.copy, [](Calibration& c) -> MemoryCost& { return *c.copy; });
}

// Speeds that would add up to less than 1 are raised together: ops would rather run one after the other.
void CostRanges::add_interference(std::size_t i) {
  const Interference& entry = calibration_.interference[i];
  const double within = within_of(entry.provenance, assumed_slowing);
  const std::string name =
      entry.provenance.origin == Origin::Assumed ? "interference" : "interference " + name_of(entry);
  add(name, entry.provenance.origin, within, [i, within](Calibration& c, double ends, std::uint64_t) {
    Interference& to = c.interference[i];
    to.a_speed = slowed(to.a_speed, std::pow(within, ends));
    to.b_speed = slowed(to.b_speed, std::pow(within, ends));
    if (to.c) to.c->speed = slowed(to.c->speed, std::pow(within, ends));
    const double sum = to.a_speed + to.b_speed + (to.c ? to.c->speed : 0);
    if (sum >= 1) return;
    to.a_speed = to.a_speed / sum;
    if (to.c) to.c->speed = to.c->speed / sum;
    to.b_speed = 1 - to.a_speed - (to.c ? to.c->speed : 0);
  });
}

Calibration CostRanges::drawn(std::uint64_t seed) const {
  Calibration off = calibration_;
  for (std::size_t i = 0; i < costs_.size(); ++i) {
    const std::uint64_t own = mixed(mixed(seed), costs_[i].name);
    for (const Put& put : puts_[i]) put(off, normal_draw(own) / nine_of_ten, own);
  }
  return off;
}

Calibration CostRanges::at_end(std::size_t cost, double ends) const {
  Calibration off = calibration_;
  for (const Put& put : puts_[cost]) put(off, ends, 0);
  return off;
}

}  // namespace dovetail

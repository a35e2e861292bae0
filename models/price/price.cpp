// SPDX-License-Identifier: Apache-2.0
#include "models/price/price.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/base/overloaded.hpp"
#include "models/network/routed_rows.hpp"
#include "models/price/calibration.hpp"
#include "models/price/collective_price.hpp"
#include "models/price/contention.hpp"
#include "models/price/contention_shares.hpp"
#include "models/price/kernel_price.hpp"
#include "models/price/network_pricing.hpp"
#include "models/price/overlap.hpp"
#include "models/price/step_cost.hpp"
#include "models/schedule/lowering.hpp"

namespace dovetail {
namespace {

constexpr int usual_multiprocessors = 20;  // of DeepEP's kernels, unless a caller says otherwise

const TimeCurve& curve_of(const ProfiledWork& work, Phase phase, const Model& model) {
  const TimeProfile& profile = work.module == Profiled::Gate ? model.gate_profile : model.expert_profile;
  const TimeCurve& curve = phase == Phase::Forward ? profile.forward : profile.backward;
  check(!curve.empty(), "a profiled op without a profile");
  return curve;
}

class Pricer {
 public:
  Pricer(const Schedule& schedule, const Experiment& experiment, const NetworkLoad* network)
      : s_(schedule),
        e_(experiment),
        network_(network),
        gemm_(find_gemm(*experiment.calibration, experiment.workload.dtype)),
        shapes_(*experiment.calibration, experiment.workload.dtype, experiment.workload.other_products(),
                experiment.workload.phases == Phases::Training, experiment.cluster.device.l2_cache),
        by_shapes_(schedule.kernels.size()) {
    if (kinds_of(s_) > kinds_.size()) kinds_.push_back(InterferenceClass::Copy);
    for (std::size_t c = 0; c < s_.classes.size(); ++c)
      for (InterferenceClass kind : kinds_) p_.resources.push_back(name_of(name_in(interference_class_names, kind), c));
    if (network_ != nullptr) std::ranges::copy(network_->resources(), std::back_inserter(p_.resources));
    p_.physical = p_.resources.size();
    const std::vector<Interference> interference = interference_of(e_, s_.all_to_all, s_.comm_sms);
    for (const Interference& entry : interference) add_contention(entry, interference);
  }

  // `routed`: the ranks that have most rows, since the others wait for them. Null where messages are not of routed
  // sizes, and where the network says which rank sends what.
  PricedSchedule price(const RoutedRows* routed) {
    p_.fixed.reserve(s_.ops.size());
    p_.duration.reserve(s_.ops.size());
    p_.first_demand.push_back(0);
    const bool shares_lists = network_ == nullptr && !s_.copies.empty();
    if (shares_lists) p_.lists.reserve(s_.ops.size());
    const auto price_until = [&](OpId end) {
      for (OpId i(p_.duration.size()); i < end; ++i) {
        price(s_.ops[i], routed);
        p_.first_demand.push_back(static_cast<std::int32_t>(p_.demands.size()));
        if (shares_lists) p_.lists.push_back(static_cast<std::int32_t>(p_.first_demand.size()) - 2);
      }
    };
    for (const OpCopies& copies : s_.copies) {
      price_until(copies.first);
      if (shares_lists) price_again(copies);
    }
    price_until(OpId(s_.ops.size()));
    return std::move(p_);
  }

 private:
  void price(const Op& op, const RoutedRows* routed) {
    if (routed == nullptr && network_ == nullptr) return price(op);
    Op worked = op;
    worked.work = routed != nullptr ? routed->largest(op) : network_->work(op);
    price(worked);
    if (network_ != nullptr) demand_memory(worked);
  }

  // Ops for another micro-batch cost the same again.
  void price_again(const OpCopies& copies) {
    for (OpId i = copies.original; i < copies.original + copies.count; ++i) {
      p_.fixed.push_back(p_.fixed[i]);
      p_.duration.push_back(p_.duration[i]);
      p_.lists.push_back(p_.lists[static_cast<std::size_t>(i)]);
    }
  }

  struct Contention {
    std::vector<ContentionShare> shares;
    int resource;                                 // of rank class 0
    bool other_collectives, simple, low_latency;  // exchanges that demand it; the last two are all-to-alls
    bool counts(const ExchangeWork& exchange) const {
      if (exchange.collective != Collective::AllToAll && exchange.steps.empty()) return other_collectives;
      return exchange.protocol == Protocol::LowLatency ? low_latency : simple;
    }
  };

  // Kinds that no op of the schedule is of slow nothing.
  void add_contention(const Interference& entry, std::span<const Interference> all) {
    std::vector<ContentionShare> shares = contention_shares(entry);
    const auto missing = [&](const ContentionShare& s) { return static_cast<std::size_t>(s.kind) >= kinds_.size(); };
    if (std::ranges::any_of(shares, missing)) return;
    const auto resource = static_cast<int>(p_.resources.size());
    contention_.push_back({std::move(shares), resource, counts_for(entry, all, {}),
                           counts_for(entry, all, Protocol::Simple), counts_for(entry, all, Protocol::LowLatency)});
    for (std::size_t k = 0; k < s_.classes.size(); ++k) p_.resources.push_back(name_of(dovetail::name_of(entry), k));
  }

  void price(const Op& op) {
    std::visit(Overloaded{[&](const KernelWork& work) { price_kernel(op, work); },
                          [&](const ProfiledWork& work) { price_profiled(op, work); },
                          [&](const ExchangeWork& work) { price_exchange(op, work); },
                          [&](const CopyWork& work) { price_copy(op, work); },
                          // The next launch costs this much when nothing hides it; the host's time has its own.
                          [&](HostWait) {
                            const auto& host = e_.calibration->host;
                            add_kernel(op, {host ? host->pace * host->profile.wait : gemm_.alpha, {}});
                          }},
               *op.work);
  }

  // Kernels and the copies of an all-to-all; what an exchange reads and writes is its flows' (see network_load.hpp).
  void demand_memory(const Op& op) {
    Bytes traffic = op.memory_traffic();
    if (op.kernel() != nullptr) traffic += op.kernel()->gemm_traffic - from_cache(*op.kernel());
    if (traffic <= Bytes(0)) return;
    const NetworkDemand demand = network_->memory(s_.class_of(op), traffic);
    p_.demands.push_back({static_cast<int>(kinds_.size() * s_.classes.size()) + demand.resource, demand.seconds, 1});
    p_.duration.back() = std::max(p_.duration.back(), p_.fixed.back() + demand.seconds);
  }

  // The cost at the speed of the class's GPUs and of their links.
  StepCost slowed(StepCost cost, int rank_class) const {
    const GpuSpeed speed = network_->network().speed(rank_class);
    const auto divide = [&](InterferenceClass kind, double by) {
      Seconds& busy = cost[static_cast<std::size_t>(kind)].busy;
      busy = busy / by;
    };
    divide(InterferenceClass::Compute, speed.compute);
    divide(InterferenceClass::Inter, speed.nic);
    divide(InterferenceClass::Intra, speed.link);
    return cost;
  }

  std::string name_of(std::string_view name, std::size_t rank_class) const {
    return s_.classes.size() == 1 ? std::string(name) : fmt::format("{}#{}", name, rank_class);
  }

  void add(const Op& op, InterferenceClass kind, Seconds fixed, Seconds busy) {
    StepCost cost;
    cost[static_cast<std::size_t>(kind)] = {fixed, busy};
    add(op, cost);
  }

  void add(const Op& op, const StepCost& full_speed) {
    const int rank_class = s_.class_of(op);
    const StepCost cost = network_ == nullptr ? full_speed : slowed(full_speed, rank_class);
    p_.fixed.push_back(fixed_of(cost));
    p_.duration.push_back(duration_of(cost));
    for (std::size_t kind = 0; kind < cost.size(); ++kind)
      if (cost[kind].busy > Seconds(0))
        p_.demands.push_back(
            {static_cast<int>(kinds_.size()) * rank_class + static_cast<int>(kind), cost[kind].busy, 1});
    for (const Contention& c : contention_)
      if (op.exchange() == nullptr || c.counts(*op.exchange())) demand(c, rank_class, cost);
  }

  // An op of several kinds does not slow itself: it counts as what demands most. So no part of it counts for more than
  // the whole, and planners may add up what a step's ops demand.
  void demand(const Contention& c, int rank_class, const StepCost& cost) {
    Demand most{c.resource + rank_class, {}, 1};
    for (const ContentionShare& share : c.shares)
      if (const Seconds by_kind = cost[static_cast<std::size_t>(share.kind)].busy * share.demand;
          by_kind > most.seconds)
        most = {most.resource, by_kind, share.flows};
    if (most.seconds > Seconds(0)) p_.demands.push_back(most);
  }

  // Kinds that the calibration has measured keep their own launch time, and rates or a factor of their own.
  ResourceTime measured(const Op& op, ResourceTime by_rates) const {
    const KernelCost* kernel = find_kernel(*e_.calibration, op.kind, op.phase);
    if (kernel == nullptr) return by_rates;
    const KernelWork* work = op.kernel();
    if (!kernel->rates || work == nullptr) return {kernel->alpha, by_rates.busy * kernel->factor};
    return {kernel->alpha, seconds_of(amounts_of(s_, *work, size_of(e_.workload.dtype)), *kernel->rates)};
  }

  void add_kernel(const Op& op, ResourceTime by_rates) {
    const ResourceTime time = measured(op, by_rates);
    add(op, InterferenceClass::Compute, time.fixed, time.busy);
  }

  void price_kernel(const Op& op, const KernelWork& w) {
    const MemoryCost& memory = e_.calibration->memory;
    ResourceTime time = shapes_.tells_kernels_apart() ? by_shapes(w) : time_of(gemm_, w.flops, w.gemms);
    const ResourceTime others = time_of(memory, w.memory_traffic, w.memory_kernels);
    if (w.memory_traffic > Bytes(0)) time.fixed += others.fixed;
    add_kernel(op, {time.fixed, std::max(time.busy, gemm_traffic(w)) + others.busy});
  }

  // The part of a layout's traffic of products that the L2 cache gives; with fewer rows less of it too.
  Bytes from_cache(const KernelWork& w) const {
    if (w.gemm_traffic <= Bytes(0)) return {};
    return std::min(w.gemm_traffic, w.row_share * shapes_.read_from_cache(s_.kernels_of(w)));
  }

  Seconds gemm_traffic(const KernelWork& w) const {
    const Bytes cached = from_cache(w);
    const Seconds memory = (w.gemm_traffic - cached) * e_.calibration->memory.beta;
    return cached > Bytes(0) ? memory + cached / e_.calibration->l2_cache->bandwidth : memory;
  }

  ResourceTime by_shapes(const KernelWork& w) {
    if (w.kernels.empty()) return {};
    if (w.row_share != 1) return shapes_.of(s_.kernels_of(w), w.row_share);
    std::optional<ResourceTime>& time = by_shapes_[static_cast<std::size_t>(w.kernels.first)];
    if (!time) time = shapes_.of(s_.kernels_of(w), 1);
    return *time;
  }

  void price_profiled(const Op& op, const ProfiledWork& w) {
    const ResourceTime launch = measured(op, {});
    const auto [of_line, growing] = curve_of(w, op.phase, e_.model).at(static_cast<double>(w.size));
    add(op, InterferenceClass::Compute, launch.fixed + of_line, launch.busy + growing);
  }

  void price_copy(const Op& op, const CopyWork& w) {
    const ResourceTime time = time_of(find_copy(*e_.calibration), w.bytes);
    add(op, InterferenceClass::Copy, time.fixed, time.busy);
  }

  void price_exchange(const Op& op, const ExchangeWork& w) {
    if (s_.relays(op)) return add(op, relayed_cost(op, w));
    if (w.collective == Collective::AllToAll || !w.steps.empty()) return add(op, all_to_all_cost(op, w));
    if (w.collective == Collective::None) return add(op, StepCost{});  // the receiving end of a send
    std::optional<CollectivePrice>& cost =
        costs_[static_cast<std::size_t>(w.collective)][static_cast<std::size_t>(w.group)];
    if (!cost) cost = find_cost(*e_.calibration, w.collective, place_of(s_.groups, w.group, e_.cluster));
    const auto kind = cost->link == LinkKind::Inter ? InterferenceClass::Inter : InterferenceClass::Intra;
    const ResourceTime time = cost->of(w.message);
    add(op, kind, time.fixed, time.busy);
  }

  StepCost relayed_cost(const Op& op, const ExchangeWork& w) const {
    RelayKernel kernel;
    kernel.kind = to_owners(op) ? KernelKind::Dispatch : KernelKind::Combine;
    kernel.row = row_bytes(s_, op, e_.model.experts);
    kernel.tokens = layer_volumes(e_).tokens / s_.micro_batches;
    kernel.copies = std::llround(w.message / kernel.row);
    kernel.multiprocessors = s_.comm_sms > 0 ? s_.comm_sms : usual_multiprocessors;
    return relay_cost(*e_.calibration, w, place_of(s_.groups, w.group, e_.cluster), kernel);
  }

  const StepCost& all_to_all_cost(const Op& op, const ExchangeWork& w) {
    for (const auto& [work, cost] : all_to_alls_)
      if (work == w) return cost;
    const GroupPlace place = place_of(s_.groups, w.group, e_.cluster);
    all_to_alls_.emplace_back(w, step_cost(*e_.calibration, s_.steps_of(op), w, place));
    return all_to_alls_.back().second;
  }

  const Schedule& s_;
  const Experiment& e_;
  const NetworkLoad* network_;  // null: the cluster describes none
  const GemmCost& gemm_;
  const KernelPrices shapes_;
  std::vector<std::optional<ResourceTime>> by_shapes_;  // by the first kernel of an op's
  std::vector<InterferenceClass> kinds_{InterferenceClass::Compute, InterferenceClass::Inter, InterferenceClass::Intra};
  std::vector<Contention> contention_;
  std::vector<std::pair<ExchangeWork, StepCost>> all_to_alls_;  // few: chunks have at most two sizes
  std::array<std::array<std::optional<CollectivePrice>, group_kind_names.size()>, collective_names.size()> costs_;
  PricedSchedule p_;
};

}  // namespace

PricedSchedule price(std::shared_ptr<const Schedule> schedule, const Experiment& experiment, const RoutedRows* routed) {
  check(schedule != nullptr, "no schedule to price");
  std::optional<NetworkLoad> network = network_load(experiment, *schedule);
  std::optional<RoutedRows> found;
  if (network)
    routed = nullptr;
  else if (schedule->routed && routed == nullptr)
    routed = &found.emplace(experiment, *schedule);
  PricedSchedule priced = Pricer(*schedule, experiment, network ? &*network : nullptr).price(routed);
  priced.schedule = std::move(schedule);
  if (const auto& host = experiment.calibration->host; host && (host->launch > Seconds(0) || !host->profile.empty()))
    priced.launch = host_times(*priced.schedule, host->profile, host->speed(), host_sizes(experiment));
  if (network)
    add_flows(*network, static_cast<int>(kinds_of(*priced.schedule) * priced.schedule->classes.size()), priced);
  priced.contended = is_contended(priced);
  return priced;
}

std::size_t kinds_of(const Schedule& schedule) {
  const auto copies = [](const Stream& s) { return s.kind == StreamKind::Copy; };
  return std::ranges::any_of(schedule.streams, copies) ? 4 : 3;
}

std::vector<std::string> extrapolated_profiles(const Schedule& schedule, const Model& model) {
  std::vector<std::string> notes;
  for (const auto& [name, module] : profiled_names)
    for (Phase phase : {Phase::Forward, Phase::Backward}) {
      const auto outside = [&](const Op& op) {
        const ProfiledWork* work = op.profiled();
        return work != nullptr && work->module == module && op.phase == phase &&
               !curve_of(*work, phase, model).measured_at(static_cast<double>(work->size));
      };
      const auto op = std::ranges::find_if(schedule.ops, outside);
      if (op == schedule.ops.end()) continue;
      const std::vector<ProfilePoint>& points = curve_of(*op->profiled(), phase, model).points();
      notes.push_back(fmt::format("{}: {}_profile was measured from {} to {}; the {} time at {} is extrapolated",
                                  model.name, name, points.front().size, points.back().size,
                                  name_in(phase_names, phase), op->profiled()->size));
    }
  return notes;
}

}  // namespace dovetail

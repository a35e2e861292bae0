// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/held_exchanges.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/price/contention.hpp"
#include "models/price/contention_shares.hpp"
#include "models/price/overlap.hpp"
#include "models/price/price.hpp"
#include "models/price/transforms.hpp"

namespace dovetail::bench {
namespace {

constexpr std::array slowed_kinds{InterferenceClass::Compute, InterferenceClass::Copy};
constexpr double most_products = 2;  // that run at once, and leave an exchange what it needs

bool is_link(InterferenceClass kind) {
  return kind == InterferenceClass::Inter || kind == InterferenceClass::Intra;
}

double speed_of(const Interference& entry, InterferenceClass kind) {
  return entry.a == kind ? entry.a_speed : entry.b_speed;
}

// Each stream that exchanges has one resource for each kind of work that it slows. An exchange takes 1 - speed of that,
// and what runs beside it gets along with the rest. Progress on all of them together is that on the scarcest.
class HeldExchanges {
 public:
  HeldExchanges(const Experiment& e, const Plan& plan, const PricedSchedule& priced)
      : from_(priced),
        s_(*priced.schedule),
        kinds_(kinds_of(s_)),
        entries_(interference_of(e, plan.all_to_all, plan.comm_sms)),
        result_(with_durations(priced, priced.duration)) {
    check(from_.physical == kinds_ * s_.classes.size() && from_.first_activity.empty(),
          "held exchanges on a described network");
    result_.resources.resize(from_.physical);
    name_resources();
  }

  PricedSchedule run() {
    result_.first_demand.assign(1, 0);
    for (const OpId i : s_.ops.ids()) {
      if (exchanges(i))
        hold(i);
      else if (from_.duration[i] > from_.fixed[i])
        compute(i);
      result_.first_demand.push_back(static_cast<std::int32_t>(result_.demands.size()));
    }
    result_.contended = is_contended(result_);
    return std::move(result_);
  }

 private:
  using Slow = std::array<std::optional<int>, slowed_kinds.size()>;  // resources, by slowed kind

  bool exchanges(OpId i) const { return s_.ops[i].exchange() != nullptr && from_.duration[i] > Seconds(0); }

  int add_resource(const std::string& name) {
    result_.resources.push_back(name);
    return static_cast<int>(result_.resources.size()) - 1;
  }

  void name_resources() {
    own_.resize(s_.streams.size());
    slow_.resize(s_.streams.size());
    for (const StreamId stream : s_.streams.ids()) own_[stream] = add_resource(fmt::format("held {}", int{stream}));
    result_.physical = result_.resources.size();
    for (const OpId i : s_.ops.ids())
      if (exchanges(i))
        for (std::size_t k = 0; k < slowed_kinds.size(); ++k)
          if (auto& slow = slow_[s_.ops[i].stream][k]; !slow && kept(i, slowed_kinds[k]) < 1)
            slow = add_resource(
                fmt::format("{} beside {}", name_in(interference_class_names, slowed_kinds[k]), int{s_.ops[i].stream}));
    for (const Interference& entry : entries_) {
      if (entry.c || is_link(entry.a) || is_link(entry.b)) continue;
      pairs_.push_back({contention_shares(entry), static_cast<int>(result_.resources.size())});
      for (std::size_t c = 0; c < s_.classes.size(); ++c) add_resource(name_of(entry));
    }
  }

  // The speed that work of this kind keeps beside an exchange.
  double kept(OpId exchange, InterferenceClass kind) const {
    const ExchangeWork& work = *s_.ops[exchange].exchange();
    const bool all_to_all = work.collective == Collective::AllToAll || !work.steps.empty();
    const Protocol messages = work.protocol == Protocol::LowLatency ? Protocol::LowLatency : Protocol::Simple;
    double least = 1;
    for (const Interference& entry : entries_) {
      const InterferenceClass other = entry.a == kind ? entry.b : entry.a;
      if (entry.c || !has_kind(entry, kind) || !is_link(other) || !takes(exchange, other)) continue;
      if (counts_for(entry, entries_, all_to_all ? std::optional(messages) : std::nullopt))
        least = std::min(least, speed_of(entry, kind));
    }
    return least;
  }

  bool takes(OpId op, InterferenceClass kind) const {
    bool takes = false;
    from_.for_each_demand(op, [&](const Demand& d) { takes |= is_of(d, kind) && d.seconds > Seconds(0); });
    return takes;
  }

  bool is_of(const Demand& d, InterferenceClass kind) const {
    const auto resource = static_cast<std::size_t>(d.resource);
    return resource < from_.physical && resource % kinds_ == static_cast<std::size_t>(kind);
  }

  void hold(OpId i) {
    const StreamId stream = s_.ops[i].stream;
    const Seconds time = from_.duration[i];
    result_.fixed[i] = Seconds(0);
    result_.demands.push_back({own_[stream], time, 1});
    for (std::size_t k = 0; k < slowed_kinds.size(); ++k) {
      const double speed = kept(i, slowed_kinds[k]);
      if (speed >= 1) continue;
      const auto flows = static_cast<int>(std::ceil(most_products * (1 - speed) / speed));
      result_.demands.push_back({*slow_[stream][k], time * (1 - speed), std::max(1, flows)});
    }
  }

  void compute(OpId i) {
    result_.fixed[i] = from_.fixed[i];
    const int rank_class = s_.class_of(s_.ops[i]);
    from_.for_each_demand(i, [&](const Demand& d) {
      for (std::size_t k = 0; k < slowed_kinds.size(); ++k) {
        if (!is_of(d, slowed_kinds[k])) continue;
        result_.demands.push_back(d);
        for (const StreamId stream : s_.streams.ids())
          if (slow_[stream][k] && s_.streams[stream].rank_class == rank_class)
            result_.demands.push_back({*slow_[stream][k], d.seconds, 1});
        for (const auto& [shares, resource] : pairs_)
          for (const ContentionShare& share : shares)
            if (share.kind == slowed_kinds[k])
              result_.demands.push_back({resource + rank_class, d.seconds * share.demand, share.flows});
      }
    });
  }

  struct Pair {
    std::vector<ContentionShare> shares;
    int resource;  // of rank class 0
  };

  const PricedSchedule& from_;
  const Schedule& s_;
  std::size_t kinds_;
  std::vector<Interference> entries_;
  PricedSchedule result_;
  IdVector<StreamId, int> own_;
  IdVector<StreamId, Slow> slow_;
  std::vector<Pair> pairs_;
};

}  // namespace

std::vector<Interference> beside_held(const std::vector<Interference>& interference) {
  std::vector<Interference> kept;
  for (Interference entry : interference) {
    const bool exchange = is_link(entry.a) || is_link(entry.b) || (entry.c && is_link(entry.c->kind));
    if ((is_link(entry.a) && is_link(entry.b)) || (entry.c && exchange)) continue;
    if (is_link(entry.a)) entry.a_speed = 1;
    if (is_link(entry.b)) entry.b_speed = 1;
    kept.push_back(std::move(entry));
  }
  return kept;
}

PricedSchedule with_held_exchanges(const Experiment& e, const Plan& plan, const PricedSchedule& priced) {
  if (e.overlap == Overlap::Ideal) return with_durations(priced, priced.duration);
  return HeldExchanges(e, plan, priced).run();
}

}  // namespace dovetail::bench

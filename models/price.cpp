#include "models/price.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "models/errors.hpp"
#include "models/names.hpp"

namespace dovetail {
namespace {

// How many of the shares of a contention resource each side of a pair gets, so that neither is held by
// its share below the speed it keeps: a / (a + b) <= a_speed, b / (a + b) <= b_speed.
std::pair<int, int> shares(const Interference& pair) {
  constexpr int largest = 20;
  for (int sum = 2; sum <= largest; ++sum)
    for (int a = 1; a < sum; ++a)
      if (a <= pair.a_speed * sum && sum - a <= pair.b_speed * sum) return {a, sum - a};
  throw InputError(fmt::format("interference of {} and {}: speeds {} and {} add up to less than 1",
                               name_in(interference_class_names, pair.a), name_in(interference_class_names, pair.b),
                               pair.a_speed, pair.b_speed));
}

class Pricer {
 public:
  Pricer(const Schedule& schedule, const Experiment& experiment)
      : s_(schedule), e_(experiment), gemm_(find_gemm(experiment.calibration, experiment.workload.dtype)) {
    for (std::size_t c = 0; c < s_.classes.size(); ++c)
      for (std::string_view name : {"compute", "inter", "intra"}) p_.resources.push_back(name_of(name, c));
    p_.physical = p_.resources.size();
    for (const Interference& pair : e_.calibration.interference)
      contention_.push_back(
          {pair, shares(pair),
           static_cast<int>(p_.resources.size()) + static_cast<int>(contention_.size() * s_.classes.size())});
    for (const Contention& c : contention_)
      for (std::size_t k = 0; k < s_.classes.size(); ++k)
        p_.resources.push_back(name_of(fmt::format("{}/{}", name_in(interference_class_names, c.pair.a),
                                                   name_in(interference_class_names, c.pair.b)),
                                       k));
  }

  PricedSchedule price() {
    p_.fixed.reserve(s_.ops.size());
    p_.duration.reserve(s_.ops.size());
    p_.demands.reserve(s_.ops.size());
    p_.first_demand.reserve(s_.ops.size() + 1);
    p_.first_demand.push_back(0);
    for (const Op& op : s_.ops) {
      op.work.collective == Collective::None ? price_kernel(op) : price_collective(op);
      p_.first_demand.push_back(static_cast<std::int32_t>(p_.demands.size()));
    }
    return std::move(p_);
  }

 private:
  struct Contention {
    Interference pair;
    std::pair<int, int> shares;
    int resource;  // of rank class 0
  };

  std::string name_of(std::string_view name, std::size_t rank_class) const {
    return s_.classes.size() == 1 ? std::string(name) : fmt::format("{}#{}", name, rank_class);
  }

  void add(const Op& op, InterferenceClass kind, Seconds fixed, Seconds busy) {
    const int rank_class = s_.streams[static_cast<std::size_t>(op.stream)].rank_class;
    p_.fixed.push_back(fixed);
    p_.duration.push_back(fixed + busy);
    if (busy <= Seconds(0)) return;
    p_.demands.push_back({3 * rank_class + static_cast<int>(kind), busy, 1});
    for (const Contention& c : contention_) {
      const auto [a, b] = c.shares;
      const double sum = a + b;
      if (c.pair.a == kind)
        p_.demands.push_back({c.resource + rank_class, busy * (a / sum / c.pair.a_speed), a});
      else if (c.pair.b == kind)
        p_.demands.push_back({c.resource + rank_class, busy * (b / sum / c.pair.b_speed), b});
    }
  }

  void price_kernel(const Op& op) {
    const Work& w = op.work;
    const MemoryCost& memory = e_.calibration.memory;
    Seconds fixed = gemm_.alpha * w.gemms;
    if (w.memory_traffic > Bytes(0)) fixed += memory.alpha;
    const Seconds gemms = std::max(w.flops * gemm_.beta, w.gemm_traffic * memory.beta);
    add(op, InterferenceClass::Compute, fixed, gemms + w.memory_traffic * memory.beta);
  }

  void price_collective(const Op& op) {
    const Collective collective = op.work.collective;
    std::optional<CollectiveCost>& cost =
        costs_[static_cast<std::size_t>(collective)][static_cast<std::size_t>(op.work.group)];
    if (!cost)
      cost = find_cost(e_.calibration, collective, group_shape(s_.groups, op.work.group, e_.cluster),
                       e_.cluster.gpus_per_node);
    const auto kind = cost->link == LinkKind::Inter ? InterferenceClass::Inter : InterferenceClass::Intra;
    add(op, kind, cost->alpha, op.work.message * cost->beta);
  }

  const Schedule& s_;
  const Experiment& e_;
  const GemmCost& gemm_;
  std::vector<Contention> contention_;
  std::array<std::array<std::optional<CollectiveCost>, group_kind_names.size()>, collective_names.size()> costs_;
  PricedSchedule p_;
};

}  // namespace

PricedSchedule price(std::shared_ptr<const Schedule> schedule, const Experiment& experiment) {
  check(schedule != nullptr, "no schedule to price");
  PricedSchedule priced = Pricer(*schedule, experiment).price();
  priced.schedule = std::move(schedule);
  return priced;
}

}  // namespace dovetail

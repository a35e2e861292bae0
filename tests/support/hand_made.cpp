#include "tests/support/hand_made.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "models/fair_sharing.hpp"

namespace dovetail::test {

HandMade::HandMade(int streams, int resources) {
  schedule_.classes.resize(1);
  schedule_.streams.resize(static_cast<std::size_t>(streams));
  for (int r = 0; r < resources; ++r) priced_.resources.push_back("r" + std::to_string(r));
  priced_.first_demand.push_back(0);
}

OpId HandMade::add(StreamId stream, std::initializer_list<OpId> dependencies, double fixed,
                   std::initializer_list<Demand> demands) {
  return add(stream, std::span(dependencies.begin(), dependencies.size()), fixed,
             std::span(demands.begin(), demands.size()));
}

OpId HandMade::add(StreamId stream, std::span<const OpId> dependencies, double fixed, std::span<const Demand> demands) {
  Op op;
  op.stream = stream;
  op.dependencies.first = static_cast<std::int32_t>(schedule_.dependencies.size());
  schedule_.dependencies.insert(schedule_.dependencies.end(), dependencies.begin(), dependencies.end());
  op.dependencies.last = static_cast<std::int32_t>(schedule_.dependencies.size());
  schedule_.ops.push_back(op);

  Seconds longest;
  for (const Demand& demand : demands) longest = std::max(longest, demand.seconds);
  priced_.demands.insert(priced_.demands.end(), demands.begin(), demands.end());
  priced_.first_demand.push_back(static_cast<std::int32_t>(priced_.demands.size()));
  priced_.fixed.push_back(Seconds(fixed));
  priced_.duration.push_back(Seconds(fixed) + longest);
  return static_cast<OpId>(schedule_.ops.size()) - 1;
}

PricedSchedule HandMade::priced() const {
  PricedSchedule result = priced_;
  result.schedule = std::make_shared<const Schedule>(schedule_);
  result.contended = std::ranges::count(shared_resources(result), true) > 0;
  return result;
}

PricedSchedule random_priced(std::uint32_t seed, const RandomShape& shape) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<std::uint32_t>(n)); };
  std::uniform_real_distribution<double> exponent(std::log(shape.shortest), std::log(shape.longest));
  const auto seconds = [&] { return std::exp(exponent(random)); };

  HandMade made(shape.streams, shape.streams + shape.shared_resources);
  std::vector<OpId> dependencies;
  std::vector<Demand> demands;
  for (int i = 0; i < shape.ops; ++i) {
    const StreamId stream = below(shape.streams);
    dependencies.clear();
    demands.clear();
    if (i > 0)
      for (int k = below(4); k > 0; --k) dependencies.push_back(below(i));
    const double fixed = below(3) == 0 ? 0 : seconds();
    if (below(8) != 0) {
      const double busy = seconds();
      demands.push_back(use(stream, busy));
      for (int r = 0; r < shape.shared_resources; ++r)
        if (below(2) == 0) demands.push_back(use(shape.streams + r, busy * (1 + below(9)) / 10, 1 + below(4)));
    }
    made.add(stream, dependencies, fixed, demands);
  }
  return made.priced();
}

}  // namespace dovetail::test

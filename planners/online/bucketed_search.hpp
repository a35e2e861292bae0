// SPDX-License-Identifier: Apache-2.0
// Tutel's online search (section 3.3, Algorithm 2): loads that are close together share what was measured at them.
#pragma once
#include <cstdint>
#include <map>
#include <unordered_map>

#include "planners/online/online.hpp"

namespace dovetail::planners {

// If all strategies were tried at a load, the best there is chosen. If all were tried only in its bucket, the best by
// the bucket's pooled times is chosen, and otherwise one that was not tried. Loads less than a hundredth of the bucket
// length apart count as one. Buckets are cut greedily from the smallest load up, each up to bucket_length long.
//
// The best has the lowest mean less what noise may have added to it, 5 % / sqrt(times tried): otherwise a strategy that
// was unlucky when it was tried would never be chosen again. (Algorithm 2 takes the lowest time.) A strategy that
// cannot be the best is not tried: one that took rho times the best of another bucket is slower here too unless loads
// differ by more than rho, since no time shrinks with the load or grows faster than it. (Algorithm 2 tries everything
// everywhere.)
//
// Pooling needs times at one load: t * (lowest load of the bucket / load)^p. The paper has p = 1, which is right if all
// of the time grows with the load. Whole steps have parts that do not. So p is learned here, from how the times of each
// strategy grow (1 until that is known).
//
// choose: O(1) for a load where all was tried, O(log buckets) for another, O(buckets) while there is something to try.
// report: O(1), O(N log N) for the first at a load. Each is multiplied by the number of strategies.
// The planner tutel_search is the same without these three changes: Algorithm 2 as it is published.
struct BucketRules {
  std::string_view name = "bucketed_search";
  double noise = .05;          // of a single time, at most; 2.5 times a deviation of 2 %
  bool learns_growth = true;   // p; else 1
  bool skips_hopeless = true;  // strategies that cannot be the best
};
inline constexpr BucketRules published_rules{"tutel_search", 0, false, false};
// For strategies that say how ranks share experts too: there are more, so that more is tried.
inline constexpr BucketRules joint_rules{"joint_search"};

class BucketedSearch final : public OnlinePlanner {
 public:
  explicit BucketedSearch(OnlineSettings settings, BucketRules rules = {});
  std::string_view name() const override { return rules_.name; }

  std::size_t buckets() const { return buckets_.size(); }
  double growth() const;  // p

 private:
  struct Timing {
    double sum = 0;
    std::int64_t count = 0;
    double mean() const { return sum / static_cast<double>(count); }
  };
  using Timings = std::vector<Timing>;  // by strategy
  struct Tried {
    double load = 0;
    Timings timings;
  };
  // Sums over the logarithms of loads and times of one strategy.
  struct Growth {
    double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  };

  std::size_t pick(double load) override;
  void learn(double load, std::size_t strategy, Seconds time) override;
  void write(nlohmann::ordered_json& state) const override;
  void read(const JsonReader& state) override;

  std::int64_t key(double load) const;
  const Timings* bucket_of(double load) const;
  std::size_t best(const Timings& timings) const;
  bool hopeless(std::size_t strategy, double load) const;
  void pool(Timings& bucket, double lowest, const Tried& tried) const;
  void rebuild();

  BucketRules rules_;
  std::unordered_map<std::int64_t, Tried> tried_;  // by key
  std::map<double, Timings> buckets_;              // by lowest load
  std::vector<Growth> growth_;                     // by strategy
};

}  // namespace dovetail::planners

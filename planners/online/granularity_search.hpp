// SPDX-License-Identifier: Apache-2.0
// MPipeMoE's granularity search (Algorithm 1): the best number of chunks grows with the batch, so what was found for
// some batches tells where to look, or the answer, for others.
#pragma once
#include <cstdint>
#include <map>

#include "planners/online/online.hpp"

namespace dovetail::planners {

// Strategies ascend (degrees 1, 2, 4 ..). A load inside a known range has that range's answer. At another load one
// strategy is tried in each step. With two neighbours, only strategies between their answers are tried, climbing from
// the better one; with one neighbour the climb starts at its answer, else at the smallest. The answer widens the
// neighbouring range of the same answer, or becomes a range. Ranges are disjoint; if answers grow with the load, each
// answer has one. Loads less than 2 % apart count as one, so that a search can end although sizes differ a little.
//
// Two strategies are timed in turn until their means differ by more than noise leaves open, or eight times. A range is
// looked at again after 16 steps and whenever they have doubled since: at a load inside it the answer is timed against
// its neighbours, and where another is faster the range is forgotten. O(log ranges + strategies) for a step.
//
// Algorithm 1 of the paper tries all strategies at a load without an answer, "over dozens of iterations", and keeps
// every answer. mpipemoe_search does that, six times each.
struct GranularityRules {
  std::string_view name = "granularity_search";
  double noise = .05;   // of a single time, at most; 2.5 times a deviation of 2 %
  int timings = 8;      // of each of two strategies, after which their means decide
  bool climbs = true;   // else all strategies are tried
  bool reopens = true;  // ranges
};
inline constexpr GranularityRules published_granularity{"mpipemoe_search", 0, 6, false, false};
// For evaluators whose times do not vary.
inline constexpr GranularityRules exact_granularity{"granularity_search", 0, 1, true, false};

class GranularitySearch final : public OnlinePlanner {
 public:
  explicit GranularitySearch(OnlineSettings settings, GranularityRules rules = {})
      : OnlinePlanner(std::move(settings)), rules_(rules) {}
  std::string_view name() const override { return rules_.name; }

  // None: it is still to be tried there.
  std::optional<std::size_t> answer(double load) const;
  std::size_t ranges() const { return ranges_.size(); }

 private:
  using Key = std::int64_t;  // of loads that count as one; ascends with them
  static constexpr std::int64_t first_check = 16;
  struct Range {
    Key high = 0;
    std::size_t strategy = 0;
    std::int64_t steps = 0, next_check = first_check;  // steps that had its answer; when it is looked at again
    std::optional<Key> checked_at = {};                // the load at which that goes on
  };
  using Ranges = std::map<Key, Range>;  // by lowest load
  struct Timing {
    double sum = 0;
    std::int64_t count = 0;
    double mean() const { return sum / static_cast<double>(count); }
  };
  using Trials = std::map<std::size_t, Timing>;  // by strategy
  // The state of a search: the strategy to try next or, once it has ended, the best.
  struct Search {
    std::size_t strategy = 0;
    bool ended = false;
  };

  std::size_t pick(double load) override;
  void learn(double load, std::size_t strategy, Seconds time) override;
  void write(nlohmann::ordered_json& state) const override;
  void read(const JsonReader& state) override;

  static Key key(double load);
  static double load_of(Key key);
  Ranges::const_iterator find(Key key) const;  // end: no range has it
  std::optional<std::size_t> undecided(const Trials& trials, std::size_t a, std::size_t b) const;
  Search search(Key key, const Trials& trials) const;
  Search climb(const Trials& trials, std::size_t from, std::size_t to) const;
  Search all_of(const Trials& trials, std::size_t first, std::size_t last) const;
  Search against_neighbours(std::size_t strategy, const Trials& trials) const;
  std::size_t in_range(Ranges::iterator range, Key key);
  void insert(Key key, std::size_t strategy);

  GranularityRules rules_;
  Ranges ranges_;
  std::map<Key, Trials> trials_;  // of searches and checks that go on
};

}  // namespace dovetail::planners

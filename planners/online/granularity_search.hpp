// SPDX-License-Identifier: Apache-2.0
// MPipeMoE's granularity search (Algorithm 1): the best number of chunks grows with the batch, so what was found for
// some batches tells where to look, or the answer, for others.
#pragma once
#include <cstdint>
#include <map>
#include <unordered_map>

#include "planners/online/online.hpp"

namespace dovetail::planners {

// Strategies ascend (degrees 1, 2, 4 ..). A load inside a known range has that range's answer. At another load one
// strategy is tried in each step. With two neighbours, only strategies between their answers are tried, climbing from
// the better one; with one neighbour the climb starts at its answer, else at the smallest. The answer widens the
// neighbouring range of the same answer, or becomes a range. Ranges are disjoint; if answers grow with the load, each
// answer has one. Loads less than 2 % apart count as one, so that a search can end although sizes differ a little.
//
// An answer stays: time measured once decides. O(1) for a load seen before, O(log ranges + strategies) for another.
class GranularitySearch final : public OnlinePlanner {
 public:
  explicit GranularitySearch(OnlineSettings settings) : OnlinePlanner(std::move(settings)) {}
  std::string_view name() const override { return "granularity_search"; }

  // None: it is still to be tried there.
  std::optional<std::size_t> answer(double load) const { return find(key(load)); }
  std::size_t ranges() const { return ranges_.size(); }

 private:
  using Key = std::int64_t;  // of loads that count as one; ascends with them
  struct Range {
    Key high = 0;
    std::size_t strategy = 0;
  };
  using Trials = std::map<std::size_t, double>;  // seconds by strategy
  // The state of a climb: the strategy to try next or, once it has ended, the best.
  struct Climb {
    std::size_t strategy = 0;
    bool ended = false;
  };

  std::size_t pick(double load) override;
  void learn(double load, std::size_t strategy, Seconds time) override;
  void write(nlohmann::ordered_json& state) const override;
  void read(const JsonReader& state) override;

  static Key key(double load);
  static double load_of(Key key);
  std::optional<std::size_t> find(Key key) const;
  Climb climb(Key key, const Trials& trials) const;
  void insert(Key key, std::size_t strategy);

  std::map<Key, Range> ranges_;                   // by lowest load
  std::unordered_map<Key, std::size_t> answers_;  // what ranges say of loads seen before
  std::map<Key, Trials> searches_;
};

}  // namespace dovetail::planners

// SPDX-License-Identifier: Apache-2.0
// The parts of a space that a search has still to look into, the most promising first, and what it leaves out.
#pragma once
#include <cstddef>
#include <queue>

#include "planners/search/search_time.hpp"

namespace dovetail::planners {

// How much is known about a part of the space. Each level is a part of the one before.
enum class Level { Volume, Structure, Degrees, Sampled, Reduced };

struct Candidate {
  Seconds rank;   // the time it is expected to lead to: its bound, until one of its layers has been sampled
  Seconds bound;  // no plan of it is faster
  Level level;
  std::size_t at;  // index of its volume at the first level, then of its structure
  int forward = 0, backward = 0;
};

class Frontier {
 public:
  void push(const Candidate& candidate) { queue_.push({candidate, next_++}); }

  // Takes the candidate of the lowest rank; of equal ones that which was pushed first. It must not be empty.
  Candidate pop();
  bool empty() const { return queue_.empty(); }

  // Gives up a candidate, or all that are left.
  void leave_out(const Candidate& candidate);
  void leave_out_rest();

  // No plan that was left out is faster. `never`: nothing was left out.
  Seconds unexplored() const { return unexplored_; }

 private:
  struct Entry {
    Candidate candidate;
    long number;
    // std::priority_queue takes the largest first.
    friend bool operator<(const Entry& a, const Entry& b) {
      return a.candidate.rank != b.candidate.rank ? a.candidate.rank > b.candidate.rank : a.number > b.number;
    }
  };
  std::priority_queue<Entry> queue_;
  long next_ = 0;
  Seconds unexplored_ = never;
};

}  // namespace dovetail::planners

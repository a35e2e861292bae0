// SPDX-License-Identifier: Apache-2.0
// Tells whoever watches what the ranks of a process are doing: the ops that run on each stream of each, and how
// many have finished.
#pragma once
#include <atomic>
#include <vector>

#include "models/schedule/op.hpp"

namespace dovetail::exec {

class Progress {
 public:
  explicit Progress(std::size_t streams, std::size_t ranks = 1) : streams_(streams), running_(streams * ranks) {
    for (std::atomic<OpId>& op : running_) op = none;
  }

  // No op should take longer from now on, in seconds.
  void expect(double longest) { longest_.store(longest, std::memory_order_relaxed); }
  double longest() const { return longest_.load(std::memory_order_relaxed); }

  long finished() const { return finished_.load(std::memory_order_relaxed); }
  // The earliest of a rank in program order, since its others may wait for it; `none` outside of steps.
  OpId earliest(std::size_t rank = 0) const {
    OpId first = none;
    for (std::size_t i = rank * streams_; i < (rank + 1) * streams_; ++i)
      if (const OpId op = running_[i].load(std::memory_order_relaxed); op != none && (first == none || op < first))
        first = op;
    return first;
  }

  // Lives while an op runs. One at a time on each stream of a rank. A null progress costs nothing.
  class Running {
   public:
    Running(Progress* progress, StreamId stream, OpId op, std::size_t rank = 0)
        : progress_(progress), at_(progress ? rank * progress->streams_ + static_cast<std::size_t>(stream) : 0) {
      if (progress_) progress_->running_[at_].store(op, std::memory_order_relaxed);
    }
    ~Running() {
      if (!progress_) return;
      progress_->running_[at_].store(none, std::memory_order_relaxed);
      progress_->finished_.fetch_add(1, std::memory_order_relaxed);
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    Progress* progress_;
    std::size_t at_;
  };

  static constexpr OpId none = {};

 private:
  std::size_t streams_;
  std::vector<std::atomic<OpId>> running_;  // by rank and stream
  std::atomic<long> finished_{0};
  std::atomic<double> longest_{0};
};

}  // namespace dovetail::exec

// What a process is doing, for whoever watches it: the ops that run on each stream, and how many have finished.
#pragma once
#include <atomic>
#include <vector>

#include "models/schedule/op.hpp"

namespace dovetail::exec {

class Progress {
 public:
  explicit Progress(std::size_t streams) : running_(streams) {
    for (std::atomic<OpId>& op : running_) op = none;
  }

  // No op should take longer from now on, in seconds.
  void expect(double longest) { longest_.store(longest, std::memory_order_relaxed); }
  double longest() const { return longest_.load(std::memory_order_relaxed); }

  long finished() const { return finished_.load(std::memory_order_relaxed); }
  // The earliest in program order, since the others may wait for it; `none` outside of steps.
  OpId earliest() const {
    OpId first = none;
    for (const std::atomic<OpId>& stream : running_)
      if (const OpId op = stream.load(std::memory_order_relaxed); op != none && (first == none || op < first))
        first = op;
    return first;
  }

  // Lives while an op runs. One at a time on each stream. A null progress costs nothing.
  class Running {
   public:
    Running(Progress* progress, StreamId stream, OpId op)
        : progress_(progress), stream_(static_cast<std::size_t>(stream)) {
      if (progress_) progress_->running_[stream_].store(op, std::memory_order_relaxed);
    }
    ~Running() {
      if (!progress_) return;
      progress_->running_[stream_].store(none, std::memory_order_relaxed);
      progress_->finished_.fetch_add(1, std::memory_order_relaxed);
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    Progress* progress_;
    std::size_t stream_;
  };

  static constexpr OpId none = -1;

 private:
  std::vector<std::atomic<OpId>> running_;  // by stream
  std::atomic<long> finished_{0};
  std::atomic<double> longest_{0};
};

}  // namespace dovetail::exec

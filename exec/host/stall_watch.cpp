// SPDX-License-Identifier: Apache-2.0
#include "exec/host/stall_watch.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <optional>
#include <utility>

#include "exec/launch/watch.hpp"
#include "exec/run/failure.hpp"

namespace dovetail::exec {
namespace {

constexpr std::chrono::milliseconds between_looks{50};
constexpr std::chrono::seconds to_wake_up{2};

// Sleeps between two looks; false once the watch is to end.
class Rest {
 public:
  explicit Rest(std::stop_token stop) : stop_(std::move(stop)) {}
  template <class Duration>
  bool operator()(Duration duration) {
    std::unique_lock lock(mutex_);
    return !wake_.wait_for(lock, stop_, duration, [&] { return stop_.stop_requested(); });
  }

 private:
  std::stop_token stop_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
};

double processor_seconds() {
  timespec time = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Seconds in which this program could run and nothing in it computed.
class IdleTime {
 public:
  double now() {
    constexpr double most = .25;  // between two looks; longer, and this program was stopped or had no core
    constexpr double busy = .1;   // of a core: more than threads take that wait
    const double wall = steady_seconds(), used = processor_seconds();
    const double passed = std::min(wall - wall_, most);
    if (used - used_ < busy * passed) idle_ += passed;
    wall_ = wall;
    used_ = used;
    return idle_;
  }

 private:
  static double steady_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  double wall_ = steady_seconds(), used_ = processor_seconds(), idle_ = 0;
};

std::optional<std::string> complaint_in_time(Rest& rest, Watch& watch, int ranks, const Progress& progress) {
  IdleTime idle;
  while (rest(between_looks)) {
    const double now = idle.now();
    for (int rank = 0; rank < ranks; ++rank)
      watch.heard({rank, progress.finished(), progress.earliest(static_cast<std::size_t>(rank)), progress.longest()},
                  now);
    if (auto complaint = watch.complaint(now)) return complaint;
  }
  return {};
}

}  // namespace

StallWatch::StallWatch(const Schedule& schedule, int ranks, const Progress& progress, Seconds patience, Tell give_up,
                       Tell stuck) try
    : thread_([watch = Watch(schedule, ranks, patience.value(), 0), ranks, &progress, give_up = std::move(give_up),
               stuck = std::move(stuck)](const std::stop_token& stop) mutable {
        Rest rest(stop);
        const auto complaint = complaint_in_time(rest, watch, ranks, progress);
        if (!complaint) return;
        give_up(*complaint);
        if (rest(to_wake_up) && stuck) stuck(*complaint);
      }) {
} catch (const std::system_error& error) {
  throw no_thread(error, "which watches the ranks: run fewer ranks, or allow more threads");
}

}  // namespace dovetail::exec

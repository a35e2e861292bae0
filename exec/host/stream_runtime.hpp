// SPDX-License-Identifier: Apache-2.0
// Runs the steps of a schedule for the ranks of this process: one thread per rank and stream, a stream's ops in
// program order, dependencies between streams by atomic wait. A rank runs the streams of its class; what depends on an
// op of another class waits in its body. Knows neither kernels nor transports.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "exec/host/placement.hpp"
#include "exec/run/step_clock.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail::exec {

// One op of one rank. Times are seconds since the start of the step.
struct OpRun {
  std::size_t local = 0;  // index into the ranks of this process
  OpId op{0};
  double ready = 0;  // the latest virtual finish of its stream predecessor and its dependencies
};

struct OpTime {
  double start = 0, finish = 0;  // by the clock
};

class StreamRuntime {
 public:
  // Runs the op and returns its virtual finish: when its successors count as ready. For an op that is not
  // emulated that is the clock's time.
  using Body = std::function<double(const OpRun&)>;

  // `ranks` are the global ranks here. When an op fails, `wake_waits` must end all waits inside of bodies; they
  // throw Cancelled. Throws DeviceError where the system has no room for so many threads.
  StreamRuntime(std::shared_ptr<const Schedule> schedule, std::vector<int> ranks, Placement placement, Body body,
                Cancellation& cancellation, std::function<void()> wake_waits);
  ~StreamRuntime();
  StreamRuntime(const StreamRuntime&) = delete;
  StreamRuntime& operator=(const StreamRuntime&) = delete;

  // Returns the time from `origin`, the start of the step, to the last finish here. The first failure of an op cancels
  // the rest and is thrown here: an InternalError or DeviceError that names rank and op. No step can follow it.
  double run_step(StepClock::Time origin = std::chrono::steady_clock::now());

  // From any thread: the step ends as if an op had failed with `cause`.
  void give_up(const std::exception_ptr& cause);

  const StepClock& clock() const { return clock_; }
  // Over all ranks here, of the last step.
  StepSpan span() const;
  std::span<const OpTime> times(std::size_t local) const { return {&times_[local * ops()], ops()}; }

 private:
  std::size_t ops() const { return schedule_->ops.size(); }
  std::size_t index(std::size_t local, OpId op) const { return local * ops() + static_cast<std::size_t>(op); }
  bool runs_here(std::size_t local, StreamId stream) const;
  void start_threads();
  void end_threads();
  void serve(std::size_t local, StreamId stream);
  void run_stream(std::size_t local, StreamId stream, std::uint32_t step);
  void rethrow_failure();
  double wait_for(std::size_t local, OpId op, std::uint32_t step) const;

  std::shared_ptr<const Schedule> schedule_;
  std::vector<int> ranks_;
  Placement placement_;
  Body body_;
  Cancellation& cancellation_;
  std::function<void()> wake_waits_;
  StepClock clock_;
  IdVector<StreamId, std::vector<OpId>> stream_ops_;
  std::vector<std::size_t> first_ops_;  // of each stream that runs here, as places in times_
  std::vector<OpTime> times_;           // by rank and op, as the next two
  std::vector<double> virtual_finish_;
  double last_finish_ = 0;
  std::vector<std::atomic<std::uint32_t>> done_;  // the last step in which the op finished
  std::atomic<std::uint32_t> step_{0};
  std::atomic<std::uint32_t> running_{0};  // streams that have not ended this step
  std::atomic<bool> stop_{false};
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

}  // namespace dovetail::exec

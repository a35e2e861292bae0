// SPDX-License-Identifier: Apache-2.0
#include "exec/host/stream_runtime.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <system_error>
#include <utility>

#include "exec/run/failure.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

constexpr std::uint32_t never = std::numeric_limits<std::uint32_t>::max();  // wakes waits without ending an op

}  // namespace

StreamRuntime::StreamRuntime(std::shared_ptr<const Schedule> schedule, std::vector<int> ranks, Placement placement,
                             Body body, Cancellation& cancellation, std::function<void()> wake_waits)
    : schedule_(std::move(schedule)),
      ranks_(std::move(ranks)),
      placement_(std::move(placement)),
      body_(std::move(body)),
      cancellation_(cancellation),
      wake_waits_(std::move(wake_waits)),
      stream_ops_(schedule_->streams.size()),
      times_(ranks_.size() * ops()),
      virtual_finish_(ranks_.size() * ops()),
      done_(ranks_.size() * ops()) {
  for (const OpId id : schedule_->ops.ids()) stream_ops_[schedule_->ops[id].stream].push_back(id);
  for (std::size_t local = 0; local < ranks_.size(); ++local)
    for (const StreamId stream : stream_ops_.ids())
      if (runs_here(local, stream) && !stream_ops_[stream].empty())
        first_ops_.push_back(index(local, stream_ops_[stream].front()));
  start_threads();
}

StreamRuntime::~StreamRuntime() {
  end_threads();
}

bool StreamRuntime::runs_here(std::size_t local, StreamId stream) const {
  return schedule_->streams[stream].rank_class == schedule_->class_of_rank(ranks_[local]);
}

void StreamRuntime::start_threads() try {
  for (std::size_t local = 0; local < ranks_.size(); ++local)
    for (const StreamId stream : stream_ops_.ids())
      if (runs_here(local, stream)) threads_.emplace_back([this, local, stream] { serve(local, stream); });
} catch (const std::system_error& error) {
  const std::size_t started = threads_.size();
  end_threads();
  throw no_thread(
      error, fmt::format("after {}, one for each stream of {} ranks: run fewer ranks, or allow more threads", started,
                         ranks_.size()));
} catch (...) {
  end_threads();
  throw;
}

void StreamRuntime::end_threads() {
  stop_ = true;
  step_.fetch_add(1);
  step_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void StreamRuntime::rethrow_failure() {
  const std::scoped_lock lock(failure_mutex_);  // the watch may give up at any time
  if (failure_) std::rethrow_exception(failure_);
}

double StreamRuntime::run_step(StepClock::Time origin) {
  rethrow_failure();
  running_ = static_cast<std::uint32_t>(threads_.size());
  clock_.restart(origin);
  step_.fetch_add(1, std::memory_order_release);
  step_.notify_all();
  for (std::uint32_t left = running_.load(); left != 0; left = running_.load()) running_.wait(left);
  rethrow_failure();
  last_finish_ = 0;
  for (const OpTime& time : times_) last_finish_ = std::max(last_finish_, time.finish);
  return last_finish_;
}

StepSpan StreamRuntime::span() const {
  const double origin = std::chrono::duration<double>(clock_.origin().time_since_epoch()).count();
  double first = last_finish_;
  for (const std::size_t op : first_ops_) first = std::min(first, times_[op].start);
  return {origin + first, origin + last_finish_};
}

void StreamRuntime::serve(std::size_t local, StreamId stream) {
  request_exact_timers();
  placement_.place(local, schedule_->streams[stream].kind == StreamKind::Compute);
  for (std::uint32_t step = 0;;) {
    step_.wait(step, std::memory_order_acquire);
    ++step;
    if (stop_) return;
    run_stream(local, stream, step);
    if (running_.fetch_sub(1) == 1) running_.notify_all();
  }
}

void StreamRuntime::run_stream(std::size_t local, StreamId stream, std::uint32_t step) {
  double last = 0;
  const int own = schedule_->streams[stream].rank_class;
  for (OpId op : stream_ops_[stream]) try {
      OpRun run{local, op, last};
      for (OpId before : schedule_->dependencies_of(schedule_->ops[op]))
        if (schedule_->class_of(schedule_->ops[before]) == own)
          run.ready = std::max(run.ready, wait_for(local, before, step));
      const std::size_t at = index(local, op);
      times_[at].start = clock_.now();
      last = virtual_finish_[at] = body_(run);
      times_[at].finish = clock_.now();
      done_[at].store(step, std::memory_order_release);
      done_[at].notify_all();
    } catch (const Cancelled&) {
      return;
    } catch (...) {
      give_up(named(std::current_exception(), to_string(schedule_->ops[op]), ranks_[local]));
      return;
    }
}

double StreamRuntime::wait_for(std::size_t local, OpId op, std::uint32_t step) const {
  const std::atomic<std::uint32_t>& done = done_[index(local, op)];
  for (std::uint32_t seen = done.load(std::memory_order_acquire); seen != step;
       seen = done.load(std::memory_order_acquire)) {
    cancellation_.check();
    done.wait(seen, std::memory_order_acquire);
  }
  return virtual_finish_[index(local, op)];
}

void StreamRuntime::give_up(const std::exception_ptr& cause) {
  {
    const std::scoped_lock lock(failure_mutex_);
    if (!failure_) failure_ = cause;
  }
  cancellation_.request();
  for (std::atomic<std::uint32_t>& done : done_) {
    done.store(never);
    done.notify_all();
  }
  wake_waits_();
}

}  // namespace dovetail::exec

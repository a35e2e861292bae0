// SPDX-License-Identifier: Apache-2.0
#include "exec/device/deferred/deferred_queue.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "models/base/errors.hpp"

namespace dovetail::exec::deferred {
namespace {

void copy_bytes(void* to, const void* from, std::int64_t bytes) {
  note_read(from, bytes);
  note_write(to, bytes);
  if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

// `lines` columns of `length` elements each, as they lie in memory.
template <class Note>
void note_columns(const void* first, std::int64_t lines, std::int64_t length, std::int64_t stride, Stored stored,
                  Note note) {
  const std::int64_t size = size_of(stored);
  for (std::int64_t i = 0; i < lines; ++i)
    note(static_cast<const std::byte*>(first) + i * stride * size, length * size);
}

void note_product(const BlasCall& c) {
  const auto reads = [](const void* first, std::int64_t bytes) { note_read(first, bytes); };
  const auto writes = [](const void* first, std::int64_t bytes) { note_write(first, bytes); };
  const auto in_batch = [](const void* first, std::int64_t offset, Stored stored) {
    return static_cast<const std::byte*>(first) + offset * size_of(stored);
  };
  for (std::int64_t i = 0; i < c.batch; ++i) {
    note_columns(in_batch(c.a, i * c.stride_a, c.factors), c.transpose_a ? c.m : c.k, c.transpose_a ? c.k : c.m, c.lda,
                 c.factors, reads);
    note_columns(in_batch(c.b, i * c.stride_b, c.factors), c.transpose_b ? c.k : c.n, c.transpose_b ? c.n : c.k, c.ldb,
                 c.factors, reads);
    const void* const result = in_batch(c.c, i * c.stride_c, c.result);
    if (c.add) note_columns(result, c.n, c.m, c.ldc, c.result, reads);
    note_columns(result, c.n, c.m, c.ldc, c.result, writes);
  }
}

void note_hold(const Hold& hold) {
  if (hold.before == nullptr) return note_read(hold.moments, sizeof *hold.moments);
  note_read(hold.before, hold.count * static_cast<std::int64_t>(sizeof *hold.before));
  for (std::int64_t i = 0; i < hold.count; ++i) note_read(hold.moments + hold.before[i], sizeof *hold.moments);
}

// Overruns are counted by an atomic addition, which needs no order.
Nanoseconds run_exchange(const HeldExchange& e, Nanoseconds begin) {
  note_hold(e.hold);
  note_read(e.pieces, e.count * static_cast<std::int64_t>(sizeof *e.pieces));
  note_write(e.done, sizeof *e.done);
  const Nanoseconds end = deadline(e.hold, begin);
  for (std::int64_t i = 0; i < e.count; ++i) copy_bytes(e.pieces[i].to, e.pieces[i].from, e.pieces[i].bytes);
  if (e.hold.finish >= 0) note_write(e.hold.moments + e.hold.finish, sizeof *e.hold.moments);
  if (finish(e.hold, end, std::max(begin, end)))
    std::atomic_ref(e.hold.moments[Hold::overruns]).fetch_add(1, std::memory_order_relaxed);
  return end;
}

}  // namespace

void Shared::give(Lane& lane, Command command) {
  if (capture && capture->take(lane, command)) return;
  if (command.waits_for && command.waits_for->capture != 0)
    throw DeviceError("waiting for an event", "its last record was captured (cudaErrorCapturedEvent)");
  runner.give(lane, std::move(command));
}

Lane& lane_of(Queue& queue) {
  return dynamic_cast<DeferredQueue&>(queue).lane();
}

void DeferredQueue::give(const char* what, std::function<Nanoseconds(Nanoseconds)> work) {
  Command command;
  command.what = what;
  command.purpose = purpose_;
  command.work = std::move(work);
  shared_.give(*lane_, std::move(command));
}

void DeferredQueue::require_memory(const void* first, std::int64_t bytes) const {
  check(shared_.runner.has_memory(range_of(first, bytes)), "work on bytes that are not of one memory of the device");
}

void DeferredQueue::copy(void* to, const void* from, std::int64_t bytes) {
  if (bytes == 0) return;
  require_memory(to, bytes);
  require_memory(from, bytes);
  give("copy", [=](Nanoseconds begin) {
    copy_bytes(to, from, bytes);
    return begin;
  });
}

void DeferredQueue::fill(void* first, int byte, std::int64_t bytes) {
  if (bytes == 0) return;
  require_memory(first, bytes);
  give("fill", [=](Nanoseconds begin) {
    note_write(first, bytes);
    std::memset(first, byte, static_cast<std::size_t>(bytes));
    return begin;
  });
}

// Libraries allocate when a queue multiplies for the first time.
void DeferredQueue::multiply(const Product& p) {
  if (!has_multiplied_ && shared_.capture)
    throw DeviceError("a product", "its library cannot be set up in a capture (cudaErrorStreamCaptureUnsupported)");
  has_multiplied_ = true;
  give("product", [call = blas_call(p)](Nanoseconds begin) {
    if (current_trace != nullptr) note_product(call);
    multiply_plainly(call);
    return begin;
  });
}

void DeferredQueue::record(Event& event) {
  auto& deferred = dynamic_cast<DeferredEvent&>(event);
  deferred.last = shared_.runner.make_record();
  Command command;
  command.what = "record";
  command.purpose = purpose_;
  command.records = deferred.last;
  shared_.give(*lane_, std::move(command));
}

void DeferredQueue::wait(const Event& event) {
  if (shared_.ignored_wait == shared_.waits++) return;
  Command command;
  command.what = "wait";
  command.purpose = purpose_;
  command.waits_for = dynamic_cast<const DeferredEvent&>(event).last;
  if (command.waits_for) shared_.give(*lane_, std::move(command));
}

void DeferredQueue::loop(std::function<void()> work) {
  loop_when({}, std::move(work));
}

void DeferredQueue::loop_when(const std::function<bool()>& ready, std::function<void()> work) {
  Command command;
  command.body = &work.target_type();
  command.purpose = purpose_;
  command.ready = ready;
  command.work = [work = std::move(work)](Nanoseconds begin) {
    work();
    return begin;
  };
  shared_.give(*lane_, std::move(command));
}

void DeferredQueue::mark(std::int64_t* moment) {
  give("mark", [=](Nanoseconds begin) {
    note_write(moment, sizeof *moment);
    *moment = begin;
    return begin;
  });
}

void DeferredQueue::hold(const Hold& hold) {
  give("hold", [hold](Nanoseconds begin) {
    note_hold(hold);
    return deadline(hold, begin);
  });
}

void DeferredQueue::exchange(const HeldExchange& exchange) {
  give("exchange", [exchange](Nanoseconds begin) { return run_exchange(exchange, begin); });
}

}  // namespace dovetail::exec::deferred

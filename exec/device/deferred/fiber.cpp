// SPDX-License-Identifier: Apache-2.0
#include "exec/device/deferred/fiber.hpp"

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#include <ucontext.h>

#include <atomic>
#include <cstddef>
#include <exception>
#include <vector>
#endif

namespace dovetail::exec::deferred {

#ifdef __SANITIZE_THREAD__

namespace {

constexpr std::size_t stack_bytes = 256 * 1024;

}  // namespace

// Without an order between them, the fiber and its caller may share atomics alone: the fiber destroys the call itself.
struct Fiber::State {
  std::vector<std::byte> stack = std::vector<std::byte>(stack_bytes);
  ucontext_t own{}, caller{};
  void* fiber = __tsan_create_fiber(0);
  void* calling_fiber = nullptr;
  std::atomic<Call*> call{nullptr};
  std::atomic<std::int64_t> result{0};
  std::atomic<std::exception_ptr*> failure{nullptr};

  static void loop(unsigned high, unsigned low);
  void run_call();
};

__attribute__((no_sanitize_thread)) void Fiber::State::loop(unsigned high, unsigned low) {
  auto* const self = reinterpret_cast<State*>((static_cast<std::uintptr_t>(high) << 32) | low);
  for (;;) {
    self->run_call();
    __tsan_switch_to_fiber(self->calling_fiber, __tsan_switch_to_fiber_no_sync);
    swapcontext(&self->own, &self->caller);
  }
}

void Fiber::State::run_call() {
  const std::unique_ptr<Call> now(call.load(std::memory_order_acquire));
  try {
    result.store((*now)(), std::memory_order_relaxed);
  } catch (...) {
    failure.store(new std::exception_ptr(std::current_exception()), std::memory_order_release);
  }
}

Fiber::Fiber() : state_(std::make_unique<State>()) {
  State& s = *state_;
  getcontext(&s.own);
  s.own.uc_stack.ss_sp = s.stack.data();
  s.own.uc_stack.ss_size = s.stack.size();
  const auto self = reinterpret_cast<std::uintptr_t>(&s);
  makecontext(&s.own, reinterpret_cast<void (*)()>(&State::loop), 2, static_cast<unsigned>(self >> 32),
              static_cast<unsigned>(self));
}

Fiber::~Fiber() {
  __tsan_destroy_fiber(state_->fiber);
}

bool Fiber::is_seen_as_thread() {
  return true;
}

__attribute__((no_sanitize_thread)) std::int64_t Fiber::run(Call call) {
  State& s = *state_;
  s.calling_fiber = __tsan_get_current_fiber();
  s.call.store(new Call(std::move(call)), std::memory_order_release);
  __tsan_switch_to_fiber(s.fiber, __tsan_switch_to_fiber_no_sync);
  swapcontext(&s.caller, &s.own);
  const std::unique_ptr<std::exception_ptr> failure(s.failure.exchange(nullptr, std::memory_order_acquire));
  if (failure) std::rethrow_exception(*failure);
  return s.result.load(std::memory_order_relaxed);
}

void release_mark(const void* mark) {
  __tsan_release(const_cast<void*>(mark));
}
void acquire_mark(const void* mark) {
  __tsan_acquire(const_cast<void*>(mark));
}

#else

struct Fiber::State {};
Fiber::Fiber() = default;
Fiber::~Fiber() = default;

bool Fiber::is_seen_as_thread() {
  return false;
}
std::int64_t Fiber::run(Call call) {  // NOLINT(performance-unnecessary-value-param): others take it over
  return call();
}
void release_mark(const void*) {}
void acquire_mark(const void*) {}

#endif

}  // namespace dovetail::exec::deferred

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

struct Task {
  std::function<void()> work;
  std::exception_ptr failure;
};

}  // namespace

// The task is handed over by an atomic, and the fiber deletes its work: the caller would not be ordered after that.
struct Fiber::State {
  std::vector<std::byte> stack = std::vector<std::byte>(stack_bytes);
  ucontext_t own{}, caller{};
  void* fiber = __tsan_create_fiber(0);
  void* calling_fiber = nullptr;
  std::atomic<Task*> task{nullptr};

  static void loop(unsigned high, unsigned low);
  void run_task();
};

__attribute__((no_sanitize_thread)) void Fiber::State::loop(unsigned high, unsigned low) {
  auto* const self = reinterpret_cast<State*>((static_cast<std::uintptr_t>(high) << 32) | low);
  for (;;) {
    self->run_task();
    __tsan_switch_to_fiber(self->calling_fiber, __tsan_switch_to_fiber_no_sync);
    swapcontext(&self->own, &self->caller);
  }
}

void Fiber::State::run_task() {
  Task* const now = task.load(std::memory_order_acquire);
  try {
    now->work();
  } catch (...) {
    now->failure = std::current_exception();
    release_mark(now);
  }
  now->work = nullptr;
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

__attribute__((no_sanitize_thread)) void Fiber::run(std::function<void()> work) {
  State& s = *state_;
  Task* const task = new Task{std::move(work), nullptr};
  s.calling_fiber = __tsan_get_current_fiber();
  s.task.store(task, std::memory_order_release);
  __tsan_switch_to_fiber(s.fiber, __tsan_switch_to_fiber_no_sync);
  swapcontext(&s.caller, &s.own);
  const std::exception_ptr failure = task->failure;
  delete task;
  if (!failure) return;
  std::rethrow_exception(failure);
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
void Fiber::run(std::function<void()> work) {
  work();
}
void release_mark(const void*) {}
void acquire_mark(const void*) {}

#endif

}  // namespace dovetail::exec::deferred

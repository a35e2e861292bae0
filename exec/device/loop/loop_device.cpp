// SPDX-License-Identifier: Apache-2.0
// A device of host memory whose queues do everything at once: to test all but the GPU itself.
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "exec/device/device.hpp"

namespace dovetail::exec {
namespace {

using Clock = std::chrono::steady_clock;

class HostMemory final : public Memory {
 public:
  explicit HostMemory(std::int64_t bytes) {
    const auto size = static_cast<std::size_t>((bytes + 255) / 256 * 256);
    data_ = static_cast<std::byte*>(std::aligned_alloc(256, size));
    if (data_ == nullptr && size > 0) throw DeviceError("aligned_alloc", "too little memory");
    bytes_ = bytes;
  }
  ~HostMemory() override { std::free(data_); }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
};

struct LoopEvent final : Event {
  Clock::time_point time;
};

class LoopQueue final : public Queue {
 public:
  void copy(void* to, const void* from, std::int64_t bytes) override {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
  void fill(void* first, int byte, std::int64_t bytes) override {
    std::memset(first, byte, static_cast<std::size_t>(bytes));
  }
  void multiply(const Product& p) override { multiply_plainly(blas_call(p)); }
  void record(Event& event) override { dynamic_cast<LoopEvent&>(event).time = Clock::now(); }
  void wait(const Event&) override {}
  void* stream() const override { return nullptr; }
  void loop(std::function<void()> work) override { work(); }
};

class LoopDevice final : public ComputeDevice {
 public:
  std::string description() const override { return "host memory"; }
  std::int64_t cache_bytes() const override { return 0; }
  std::unique_ptr<Memory> allocate(std::int64_t bytes, Place) override { return std::make_unique<HostMemory>(bytes); }
  std::unique_ptr<Queue> make_queue(Priority, int) override { return std::make_unique<LoopQueue>(); }
  std::unique_ptr<Event> make_event() override { return std::make_unique<LoopEvent>(); }
  void use() override {}
  bool reached(const Event&) const override { return true; }
  void synchronize() override {}
  void synchronize(Queue&) override {}
  void copy_now(void* to, const void* from, std::int64_t bytes) override {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
  Seconds elapsed(const Event& first, const Event& last) override {
    const auto time = [](const Event& e) { return dynamic_cast<const LoopEvent&>(e).time; };
    return Seconds(std::chrono::duration<double>(time(last) - time(first)).count());
  }
  std::unique_ptr<Graph> capture(Queue&, const std::function<void()>&) override { return nullptr; }
  void mark(Queue&, std::int64_t* moment) override { *moment = now(); }
  using ComputeDevice::hold;
  void hold(Queue&, const Hold& hold) override {
    const std::int64_t end = deadline(hold, now());
    while (now() < end) {
    }
  }
  void exchange(Queue&, const HeldExchange& e) override {
    const std::int64_t end = deadline(e.hold, now());
    for (std::int64_t i = 0; i < e.count; ++i)
      std::memcpy(e.pieces[i].to, e.pieces[i].from, static_cast<std::size_t>(e.pieces[i].bytes));
    while (now() < end) {
    }
    if (finish(e.hold, end, now())) ++e.hold.moments[Hold::overruns];
  }

 private:
  static std::int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
  }
};

}  // namespace

std::unique_ptr<ComputeDevice> make_loop_device() {
  return std::make_unique<LoopDevice>();
}

}  // namespace dovetail::exec

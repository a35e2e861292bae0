// SPDX-License-Identifier: Apache-2.0
#include "exec/device/deferred/deferred_device.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "exec/device/deferred/deferred_graph.hpp"
#include "exec/device/deferred/deferred_queue.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace deferred {
namespace {

// Exactly as long as asked for, so that the address sanitizer sees what goes beyond its end.
class DeferredMemory final : public Memory {
 public:
  DeferredMemory(std::shared_ptr<Shared> shared, std::int64_t bytes) : shared_(std::move(shared)) {
    void* memory = nullptr;
    if (posix_memalign(&memory, 256, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1))) != 0)
      throw DeviceError("posix_memalign", "too little memory");
    data_ = static_cast<std::byte*>(memory);
    bytes_ = bytes;
    std::memset(data_, 0xff, static_cast<std::size_t>(bytes));  // a NaN in every format: nothing is zero by chance
    shared_->runner.add_memory(range_of(data_, bytes_));
  }
  // As GPUs do, it waits for the device.
  ~DeferredMemory() override {
    try {
      shared_->runner.run_all();
    } catch (...) {  // who waits before is told
    }
    shared_->runner.remove_memory(range_of(data_, bytes_));
    std::free(data_);
  }
  DeferredMemory(const DeferredMemory&) = delete;
  DeferredMemory& operator=(const DeferredMemory&) = delete;

 private:
  std::shared_ptr<Shared> shared_;
};

class TheDevice final : public DeferredDevice {
 public:
  explicit TheDevice(const DeferredSettings& settings) : shared_(std::make_shared<Shared>(settings)) {}

  std::string description() const override { return "host memory, in random orders"; }
  std::int64_t cache_bytes() const override { return 0; }
  std::unique_ptr<Memory> allocate(std::int64_t bytes, Place) override {
    refuse_in_capture("allocating");
    return std::make_unique<DeferredMemory>(shared_, bytes);
  }
  std::unique_ptr<Queue> make_queue(Priority, int) override { return std::make_unique<DeferredQueue>(*shared_); }
  std::unique_ptr<Event> make_event() override { return std::make_unique<DeferredEvent>(); }
  void use() override {}

  bool reached(const Event& event) const override {
    refuse_in_capture("asking for an event");
    const Record* const last = record_of(event);
    return last == nullptr || runner().run_some(*last);
  }
  void synchronize() override {
    refuse_in_capture("synchronizing");
    runner().run_all();
  }
  void synchronize(Queue& queue) override {
    refuse_in_capture("synchronizing");
    runner().run(lane_of(queue));
  }
  void copy_now(void* to, const void* from, std::int64_t bytes) override {
    if (bytes == 0) return;
    synchronize();
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    copied_now_ = range_of(from, bytes);
  }
  Seconds elapsed(const Event& first, const Event& last) override {
    const auto time = [](const Event& event) {
      const Record* const record = record_of(event);
      if (record == nullptr || !record->over) throw DeviceError("elapsed", "an event that is not over");
      return record->time;
    };
    return Seconds(1e-9 * static_cast<double>(time(last) - time(first)));
  }

  std::unique_ptr<Graph> capture(Queue& origin, const std::function<void()>& issue) override {
    refuse_in_capture("capturing");
    shared_->capture = std::make_unique<Capture>(++shared_->captures, lane_of(origin));
    try {
      issue();
    } catch (...) {
      shared_->capture.reset();
      throw;
    }
    const std::unique_ptr<Capture> captured = std::move(shared_->capture);
    return std::make_unique<DeferredGraph>(runner(), captured->take_all());
  }

  void mark(Queue& queue, std::int64_t* moment) override { dynamic_cast<DeferredQueue&>(queue).mark(moment); }
  using ComputeDevice::hold;
  void hold(Queue& queue, const Hold& hold) override { dynamic_cast<DeferredQueue&>(queue).hold(hold); }
  void exchange(Queue& queue, const HeldExchange& exchange) override {
    dynamic_cast<DeferredQueue&>(queue).exchange(exchange);
  }

  const std::vector<Race>& races() const override { return runner().races(); }
  void forget_races() override { runner().forget_races(); }
  void plant(const PlantedFaults& faults) override {
    shared_->ignored_wait = faults.ignored_wait;
    if (faults.ignored_wait) *shared_->ignored_wait += shared_->waits;
    runner().fail_at(faults.failing_command);
  }
  std::int64_t waits() const override { return shared_->waits; }
  std::int64_t commands_run() const override { return runner().commands_run(); }
  std::optional<deferred::Accessor> failed() const override { return runner().failed(); }
  std::vector<LoggedCommand> commands() const override { return runner().log(); }
  Range copied_now() const override { return copied_now_; }

 private:
  Runner& runner() const { return shared_->runner; }
  static const Record* record_of(const Event& event) {
    const Record* const last = dynamic_cast<const DeferredEvent&>(event).last.get();
    if (last != nullptr && last->capture != 0)
      throw DeviceError("asking for an event", "its last record was captured (cudaErrorCapturedEvent)");
    return last;
  }
  void refuse_in_capture(std::string_view what) const {
    if (shared_->capture) throw DeviceError(what, "not while work is captured (cudaErrorStreamCaptureUnsupported)");
  }

  std::shared_ptr<Shared> shared_;
  Range copied_now_;
};

}  // namespace
}  // namespace deferred

std::unique_ptr<DeferredDevice> make_deferred_device(const DeferredSettings& settings) {
  return std::make_unique<deferred::TheDevice>(settings);
}

}  // namespace dovetail::exec

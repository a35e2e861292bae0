// SPDX-License-Identifier: Apache-2.0
// Queues and events of a deferred device: their calls become commands of a lane.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "exec/device/deferred/capture.hpp"
#include "exec/device/hold.hpp"

namespace dovetail::exec::deferred {

// State that all queues of a device share.
struct Shared {
  explicit Shared(const DeferredSettings& settings) : runner(settings) {}
  Runner runner;
  std::unique_ptr<Capture> capture;  // under way
  std::int32_t captures = 0;
  std::int64_t waits = 0;  // given so far
  std::optional<std::int64_t> ignored_wait;

  // To the queue's lane, or to the capture that it is in.
  void give(Lane& lane, Command command);
};

class DeferredEvent final : public Event {
 public:
  std::shared_ptr<Record> last;  // null: never recorded
};

class DeferredQueue final : public Queue {
 public:
  explicit DeferredQueue(Shared& shared) : shared_(shared), lane_(shared.runner.make_lane()) {}

  void copy(void* to, const void* from, std::int64_t bytes) override;
  void fill(void* first, int byte, std::int64_t bytes) override;
  void multiply(const Product& p) override;
  void record(Event& event) override;
  void wait(const Event& event) override;
  void* stream() const override { return nullptr; }
  void loop(std::function<void()> work) override;
  void loop_when(const std::function<bool()>& ready, std::function<void()> work) override;
  void serves(Purpose purpose) override { purpose_ = purpose; }

  void mark(std::int64_t* moment);
  void hold(const Hold& hold);
  void exchange(const HeldExchange& exchange);
  Lane& lane() const { return *lane_; }

 private:
  void give(const char* what, std::function<Nanoseconds(Nanoseconds)> work);
  void require_memory(const void* first, std::int64_t bytes) const;

  Shared& shared_;
  std::shared_ptr<Lane> lane_;
  Purpose purpose_;
  bool has_multiplied_ = false;
};

Lane& lane_of(Queue& queue);

}  // namespace dovetail::exec::deferred

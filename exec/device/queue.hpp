// SPDX-License-Identifier: Apache-2.0
// An in-order queue of work on a device, and marks in it that other queues wait for.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "exec/device/product.hpp"
#include "models/schedule/op.hpp"

namespace dovetail::exec {

class Event {
 public:
  virtual ~Event() = default;
};

// The purpose of work, as reports of stand-in devices name it.
struct Purpose {
  OpId op;  // none: of no op
  std::int32_t rank = -1;
};

class Queue {
 public:
  virtual ~Queue() = default;

  // Nothing here waits; operands must stay until the work is done. Memory of the device or pinned memory.
  virtual void copy(void* to, const void* from, std::int64_t bytes) = 0;
  virtual void fill(void* first, int byte, std::int64_t bytes) = 0;
  virtual void multiply(const Product& p) = 0;

  virtual void record(Event& event) = 0;
  virtual void wait(const Event& event) = 0;  // what follows here waits for what came before the event's last record

  // The cudaStream_t on which kernels are launched, or null if they are loops on the host, which `loop` gets.
  virtual void* stream() const = 0;
  virtual void loop(std::function<void()> work) = 0;
  // Work that waits for something outside of the device, until `ready`. It must wait by itself where it runs at once.
  virtual void loop_when(const std::function<bool()>&, std::function<void()> work) { loop(std::move(work)); }
  virtual void serves(Purpose) {}  // what follows
};

}  // namespace dovetail::exec

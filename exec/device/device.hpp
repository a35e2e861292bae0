// SPDX-License-Identifier: Apache-2.0
// The interface of a device for executors: memory, queues, marks in time, and graphs of captured work. One
// implementation is a GPU; the other, of host memory and loops, is there to test all the rest without one.
#pragma once
#include <cmath>
#include <functional>
#include <memory>
#include <string>

#include "exec/device/hold.hpp"
#include "exec/device/queue.hpp"
#include "models/base/units.hpp"
#include "models/results/clock_reading.hpp"
#include "models/schedule/op.hpp"

namespace dovetail::exec {

// A piece of memory, aligned to 256 bytes.
class Memory {
 public:
  virtual ~Memory() = default;
  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

 protected:
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

// Work that was captured, to be launched as a whole.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void launch(Queue& queue) = 0;
};

// High: its kernels get free multiprocessors first, as those of exchanges must.
enum class Priority { Normal, High };

class ComputeDevice {
 public:
  virtual ~ComputeDevice() = default;
  virtual std::string description() const = 0;
  virtual std::int64_t cache_bytes() const = 0;      // that all of it shares; 0: none worth avoiding
  virtual int multiprocessors() const { return 0; }  // 0: kernels do not share them out
  virtual ClockReading clock() const { return {}; }  // now

  // Place::Host: pinned host memory, which queues copy from and to. Throws DeviceError where there is too little.
  virtual std::unique_ptr<Memory> allocate(std::int64_t bytes, Place place) = 0;
  // Products that the queue is given are made for so many multiprocessors, so that the rest is left to exchanges; 0:
  // for all. Throws DeviceError where the device has fewer.
  virtual std::unique_ptr<Queue> make_queue(Priority priority, int product_multiprocessors) = 0;
  std::unique_ptr<Queue> make_queue(Priority priority = Priority::Normal) { return make_queue(priority, 0); }
  virtual std::unique_ptr<Event> make_event() = 0;

  virtual void use() = 0;                              // by the calling thread, from now on
  virtual bool reached(const Event& event) const = 0;  // its last record

  virtual void synchronize() = 0;              // until all queues are empty
  virtual void synchronize(Queue& queue) = 0;  // until this one is
  virtual void copy_now(void* to, const void* from, std::int64_t bytes) = 0;
  // Between the last records of two events, both over; host clocks of work that was captured see none.
  virtual Seconds elapsed(const Event& first, const Event& last) = 0;

  // Captures the work that `issue` gives to queues, from `origin` on and joined to it again. Null if a device has no
  // graphs.
  virtual std::unique_ptr<Graph> capture(Queue& origin, const std::function<void()>& issue) = 0;

  // Writes down when what was given to the queue before is over; waits. `moment` and what a Hold names are on the
  // device.
  virtual void mark(Queue& queue, std::int64_t* moment) = 0;
  virtual void hold(Queue& queue, const Hold& hold) = 0;
  void hold(Queue& queue, std::int64_t* moment, Seconds duration) {  // since that moment
    Hold one;
    one.moments = moment;
    one.until = nanoseconds(duration);
    hold(queue, one);
  }
  virtual void exchange(Queue& queue, const HeldExchange& exchange) = 0;
  static std::int64_t nanoseconds(Seconds time) { return std::llround(1e9 * time.value()); }
};

// A GPU; throws DeviceError where there is none of this number. It must outlive its queues.
std::unique_ptr<ComputeDevice> make_cuda_device(int number);
// Runs everything at once, on the calling thread.
std::unique_ptr<ComputeDevice> make_loop_device();

}  // namespace dovetail::exec

// SPDX-License-Identifier: Apache-2.0
// A device of host memory that adds up the products of matrices its queues are given, so that tests compare work
// instead of times; it may multiply in another way.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "exec/device/device.hpp"

namespace dovetail::exec {

class CountingQueue final : public Queue {
 public:
  using Multiply = std::function<void(const Product&)>;
  CountingQueue(std::unique_ptr<Queue> queue, std::int64_t& flops, const Multiply& multiply)
      : queue_(std::move(queue)), flops_(flops), multiply_(multiply) {}
  void copy(void* to, const void* from, std::int64_t bytes) override { queue_->copy(to, from, bytes); }
  void fill(void* first, int byte, std::int64_t bytes) override { queue_->fill(first, byte, bytes); }
  void multiply(const Product& p) override {
    flops_ += 2 * p.m * p.n * p.k * p.batch.count;
    multiply_ ? multiply_(p) : queue_->multiply(p);
  }
  void record(Event& event) override { queue_->record(event); }
  void wait(const Event& event) override { queue_->wait(event); }
  void* stream() const override { return queue_->stream(); }
  void loop(std::function<void()> work) override { queue_->loop(std::move(work)); }

 private:
  std::unique_ptr<Queue> queue_;
  std::int64_t& flops_;
  const Multiply& multiply_;
};

class CountingDevice final : public ComputeDevice {
 public:
  std::int64_t flops = 0;
  int all_multiprocessors = 0;
  int products_made_for = 0;         // of the queue that was made last
  CountingQueue::Multiply multiply;  // in place of the host's, if given

  int multiprocessors() const override { return all_multiprocessors; }
  std::string description() const override { return device_->description(); }
  std::int64_t cache_bytes() const override { return device_->cache_bytes(); }
  std::unique_ptr<Memory> allocate(std::int64_t bytes, Place place) override { return device_->allocate(bytes, place); }
  std::unique_ptr<Queue> make_queue(Priority priority, int product_multiprocessors) override {
    products_made_for = product_multiprocessors;
    auto queue = device_->make_queue(priority, product_multiprocessors);
    return std::make_unique<CountingQueue>(std::move(queue), flops, multiply);
  }
  std::unique_ptr<Event> make_event() override { return device_->make_event(); }
  void use() override { device_->use(); }
  bool reached(const Event& event) const override { return device_->reached(event); }
  void synchronize() override { device_->synchronize(); }
  void synchronize(Queue& queue) override { device_->synchronize(queue); }
  void copy_now(void* to, const void* from, std::int64_t bytes) override { device_->copy_now(to, from, bytes); }
  Seconds elapsed(const Event& first, const Event& last) override { return device_->elapsed(first, last); }
  std::unique_ptr<Graph> capture(Queue& origin, const std::function<void()>& issue) override {
    return device_->capture(origin, issue);
  }
  void mark(Queue& queue, std::int64_t* moment) override { device_->mark(queue, moment); }
  void hold(Queue& queue, const Hold& hold) override { device_->hold(queue, hold); }
  void exchange(Queue& queue, const HeldExchange& exchange) override { device_->exchange(queue, exchange); }

 private:
  std::unique_ptr<ComputeDevice> device_ = make_loop_device();
};

}  // namespace dovetail::exec

// SPDX-License-Identifier: Apache-2.0
// Takes down the device work of an op, once, so that a step is only launches: pointers and sizes never change.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "exec/device/launch.hpp"

namespace dovetail::exec {

using DeviceWork = std::function<void(Queue&)>;

// Memory that keeps what is uploaded to it.
class Tables {
 public:
  virtual ~Tables() = default;
  virtual const void* upload(const void* data, std::int64_t bytes) = 0;
};

class Recorder {
 public:
  // Without tables it only finds out how much scratch memory there must be.
  Recorder(Tables* tables, std::byte* scratch) : tables_(tables), scratch_(scratch) {}

  template <class Body>
  void launch(std::int64_t count, const Body& body) {
    work_.push_back([count, body](Queue& queue) { exec::launch(queue, count, body); });
  }
  void copy(void* to, const void* from, std::int64_t bytes) {
    work_.push_back([=](Queue& queue) { queue.copy(to, from, bytes); });
  }
  template <class Scalar>
  void zero(Scalar* first, std::int64_t count) {
    fill(first, 0, count * static_cast<std::int64_t>(sizeof(Scalar)));
  }
  void fill(void* first, int byte, std::int64_t bytes) {
    work_.push_back([=](Queue& queue) { queue.fill(first, byte, bytes); });
  }
  void call(DeviceWork work) { work_.push_back(std::move(work)); }
  void multiply(const Product& p) {
    if (p.m == 0 || p.n == 0) return;
    work_.push_back([p](Queue& queue) { queue.multiply(p); });
  }

  // Memory of this op alone, as long as it runs.
  template <class Scalar>
  Scalar* scratch(std::int64_t count) {
    Scalar* const first = reinterpret_cast<Scalar*>(scratch_ + used_);
    used_ += (count * static_cast<std::int64_t>(sizeof(Scalar)) + 255) / 256 * 256;
    return first;
  }
  std::int64_t scratch_bytes() const { return used_; }

  // Constant data; null where only sizes are looked for.
  template <class Item>
  const Item* table(const std::vector<Item>& items) {
    static_assert(std::is_trivially_copyable_v<Item>);
    if (tables_ == nullptr || items.empty()) return nullptr;
    const auto bytes = static_cast<std::int64_t>(std::as_bytes(std::span(items)).size());
    return static_cast<const Item*>(tables_->upload(items.data(), bytes));
  }

  std::vector<DeviceWork> take() { return std::move(work_); }

 private:
  Tables* tables_;
  std::byte* scratch_;
  std::int64_t used_ = 0;
  std::vector<DeviceWork> work_;
};

// A body over `count` elements, several at a time where they divide evenly and all operands begin at multiples of 16
// bytes: make.operator()<how many>() gives it.
template <class Scalar, class Make>
void launch_packed(Recorder& out, std::int64_t count, Make make, bool aligned = true) {
  constexpr int size = pack_size<Scalar>;
  if (aligned && count % size == 0)
    out.launch(count / size, make.template operator()<size>());
  else
    out.launch(count, make.template operator()<1>());
}

}  // namespace dovetail::exec

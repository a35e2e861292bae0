// SPDX-License-Identifier: Apache-2.0
// A queue that takes down products and kernels and does nothing, so that tests count what an op issues.
#pragma once
#include <functional>
#include <vector>

#include "exec/device/device_op.hpp"

namespace dovetail::exec {

class ListingQueue final : public Queue {
 public:
  void copy(void*, const void*, std::int64_t) override {}
  void fill(void*, int, std::int64_t) override {}
  void multiply(const Product& p) override { products.push_back(p); }
  void record(Event&) override {}
  void wait(const Event&) override {}
  void* stream() const override { return nullptr; }
  void loop(std::function<void()>) override { ++kernels; }

  std::vector<Product> products;
  int kernels = 0;
};

// The work of all ops of a kind and phase on rank 0, which `record` takes down.
inline ListingQueue work_of_ops(const Experiment& experiment, const std::shared_ptr<const Schedule>& schedule,
                                OpKind kind, Phase phase, const std::function<void(DeviceOp<float>&)>& record) {
  const OpSetup setup(experiment, schedule, {0}, {});
  const IdVector<TensorId, void*> tensors(schedule->tensors.size(), reinterpret_cast<void*>(std::uintptr_t{256}));
  ListingQueue queue;
  for (const Op& op : schedule->ops) {
    if (op.kind != kind || op.phase != phase || schedule->class_of(op) != schedule->class_of_rank(0)) continue;
    Recorder recorder(nullptr, reinterpret_cast<std::byte*>(std::uintptr_t{256}));
    DeviceOp<float> device_op{setup.operands(0, op), tensors, recorder};
    record(device_op);
    for (const DeviceWork& work : recorder.take()) work(queue);
  }
  return queue;
}

// Floating-point operations.
inline double operations(const std::vector<Product>& products) {
  double sum = 0;
  for (const Product& p : products)
    sum += 2 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) *
           static_cast<double>(p.batch.count);
  return sum;
}

}  // namespace dovetail::exec

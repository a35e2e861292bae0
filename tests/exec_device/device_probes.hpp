// SPDX-License-Identifier: Apache-2.0
// Measures a device's clock, marks and launches, and a product beside an exchange: figures that decide how far other
// measurements can be trusted.
#pragma once
#include <string>

#include "exec/device/device.hpp"

namespace dovetail::test {

struct ClockFigures {
  // The clock that marks read: all moments of 10,000 marks are a multiple of this apart, and the two different ones
  // that are nearest to each other this much.
  Seconds resolution, smallest_step;
  Seconds mark, captured_mark;  // in a chain of 1,000, given one by one and in a graph
  Seconds empty_op;  // between the two stamps of an op that does nothing, in pinned memory; the median of 500
  Seconds graph_launch, launch;  // of one mark, in a graph and without, from event to event; the median of 200
};
// Figures of graphs are those without them if the device captures nothing.
ClockFigures measure_clock(exec::ComputeDevice& device);
std::string lines(const ClockFigures& figures);

// 20 products of square matrices in bf16, alone and beside an exchange that outlasts them. The shortest of 5 tries.
struct ProductsBesideExchange {
  Seconds alone, beside;       // of one product
  Seconds exchange, products;  // in a try beside each other: from when both may begin until each ends
  double kept() const { return alone / beside; }
};
ProductsBesideExchange measure_beside_exchange(exec::ComputeDevice& device, std::int64_t size, int blocks);
std::string line(const ProductsBesideExchange& figures);

}  // namespace dovetail::test

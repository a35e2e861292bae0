// SPDX-License-Identifier: Apache-2.0
// The least floor of many layouts.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "planners/layouts/layout_floor.hpp"

namespace dovetail::planners {

struct FlooredLayout {
  ParallelLayout layout;
  Plan plan;  // one on it, with as little state as any
  LayoutFloor floor = {};
  FloorDetail detail = FloorDetail::Rates;
};

class FloorSearch {
 public:
  explicit FloorSearch(LayoutFloors floors) : floors_(std::move(floors)) {}

  void add(const ParallelLayout& layout, const Plan& plan);  // looks at nothing yet

  // The layout with the least floor, which is looked at whole; null: there is none. It looks at the layout that has the
  // least so far more closely, until nothing more is to be seen there.
  const FlooredLayout* lowest();

  // Layouts whose floors are no less, as far as lowest() has looked at them.
  long slower_than(Seconds time) const;

  // The floor of a layout that was added, looked at whole.
  std::optional<LayoutFloor> of(const ParallelLayout& layout);

 private:
  void look(FlooredLayout& layout, FloorDetail detail);

  LayoutFloors floors_;
  std::vector<FlooredLayout> all_;
  std::size_t seen_ = 0;  // of these, looked at
};

}  // namespace dovetail::planners

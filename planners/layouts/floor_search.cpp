// SPDX-License-Identifier: Apache-2.0
#include "planners/layouts/floor_search.hpp"

#include <algorithm>

namespace dovetail::planners {
namespace {

Seconds time_of(const FlooredLayout& layout) {
  return layout.floor.time;
}

}  // namespace

void FloorSearch::look(FlooredLayout& layout, FloorDetail detail) {
  layout.detail = detail;
  layout.floor = floors_.of(layout.layout, layout.plan, detail);
}

void FloorSearch::add(const ParallelLayout& layout, const Plan& plan) {
  all_.push_back({layout, plan});
}

const FlooredLayout* FloorSearch::lowest() {
  if (all_.empty()) return nullptr;
  for (; seen_ < all_.size(); ++seen_) look(all_[seen_], FloorDetail::Rates);
  auto lowest = std::ranges::min_element(all_, {}, time_of);
  while (lowest->detail != FloorDetail::Whole) {
    look(*lowest, next(lowest->detail));
    lowest = std::ranges::min_element(all_, {}, time_of);
  }
  return &*lowest;
}

long FloorSearch::slower_than(Seconds time) const {
  return std::ranges::count_if(all_, [&](const FlooredLayout& each) { return time_of(each) >= time; });
}

std::optional<LayoutFloor> FloorSearch::of(const ParallelLayout& layout) {
  const auto found = std::ranges::find(all_, layout, &FlooredLayout::layout);
  if (found == all_.end()) return std::nullopt;
  if (found->detail != FloorDetail::Whole) look(*found, FloorDetail::Whole);
  return found->floor;
}

}  // namespace dovetail::planners

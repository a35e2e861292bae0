// SPDX-License-Identifier: Apache-2.0
// Several lists that are each in order, gone through as one.
#pragma once
#include <algorithm>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace dovetail {

// Few lists: each item is compared with the first of every other one, but for those that follow one another in a list.
template <class Item, class Visit>
void visit_in_order(std::vector<std::span<const Item>> lists, Visit visit) {
  std::erase_if(lists, [](const auto& list) { return list.empty(); });
  const auto comes_before = [](const auto& a, const auto& b) { return a.front() < b.front(); };
  while (lists.size() > 1) {
    std::ranges::iter_swap(lists.begin(), std::ranges::min_element(lists, comes_before));
    const Item next = std::ranges::min_element(lists.begin() + 1, lists.end(), comes_before)->front();
    std::span<const Item>& first = lists.front();
    for (; !first.empty() && !(next < first.front()); first = first.subspan(1)) visit(first.front());
    if (!first.empty()) continue;
    first = lists.back();
    lists.pop_back();
  }
  for (const auto& list : lists) std::ranges::for_each(list, visit);
}

}  // namespace dovetail

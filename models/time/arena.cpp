// SPDX-License-Identifier: Apache-2.0
#include "models/time/arena.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <set>
#include <utility>

namespace dovetail {
namespace {

struct Range {
  std::int64_t first, last;
};

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + Arena::alignment - 1) / Arena::alignment * Arena::alignment;
}

std::vector<std::size_t> by_birth(const std::vector<MemoryRequest>& requests) {
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return requests[i].born; });
  return order;
}

// Calls `freed` of each request that has ended, then `placed`, in the order of births.
template <class Freed, class Placed>
void for_each_birth(const std::vector<MemoryRequest>& requests, const Freed& freed, const Placed& placed) {
  const auto later = [&](std::size_t a, std::size_t b) { return requests[a].dead > requests[b].dead; };
  std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(later)> alive(later);
  for (const std::size_t i : by_birth(requests)) {
    for (; !alive.empty() && requests[alive.top()].dead <= requests[i].born; alive.pop()) freed(alive.top());
    placed(i);
    alive.push(i);
  }
}

// Pairs of requests that live at the same time.
std::size_t count_pairs(const std::vector<MemoryRequest>& requests) {
  std::size_t pairs = 0, alive = 0;
  for_each_birth(
      requests, [&](std::size_t) { --alive; }, [&](std::size_t) { pairs += alive++; });
  return pairs;
}

// Free ranges of an arena that grows where none is large enough.
class FreeRanges {
 public:
  std::int64_t take(std::int64_t bytes) {
    if (bytes == 0) return 0;
    const auto tightest = by_size_.lower_bound({bytes, 0});
    if (tightest == by_size_.end()) return grow(bytes);
    const auto [size, first] = *tightest;
    remove(first);
    if (size > bytes) insert(first + bytes, size - bytes);
    return first;
  }

  void give_back(std::int64_t first, std::int64_t bytes) {
    if (bytes == 0) return;
    auto after = by_address_.lower_bound(first);
    if (after != by_address_.end() && after->first == first + bytes) {
      bytes += after->second;
      const std::int64_t joined = after->first;
      ++after;
      remove(joined);
    }
    if (after != by_address_.begin()) {
      const auto [before, size] = *std::prev(after);
      if (before + size == first) {
        remove(before);
        first = before;
        bytes += size;
      }
    }
    insert(first, bytes);
  }

  std::int64_t end() const { return end_; }

 private:
  // The last free range is part of what is taken where it reaches the end.
  std::int64_t grow(std::int64_t bytes) {
    std::int64_t first = end_;
    if (!by_address_.empty()) {
      const auto [last, size] = *by_address_.rbegin();
      if (last + size == end_) {
        first = last;
        remove(last);
      }
    }
    end_ = first + bytes;
    return first;
  }

  void insert(std::int64_t first, std::int64_t bytes) {
    by_address_.emplace(first, bytes);
    by_size_.emplace(bytes, first);
  }
  void remove(std::int64_t first) {
    const auto range = by_address_.find(first);
    by_size_.erase({range->second, first});
    by_address_.erase(range);
  }

  std::map<std::int64_t, std::int64_t> by_address_;
  std::set<std::pair<std::int64_t, std::int64_t>> by_size_;
  std::int64_t end_ = 0;
};

// Each request in the tightest free range at the time of its birth: n log n.
Arena place_in_time(const std::vector<MemoryRequest>& requests) {
  Arena arena;
  arena.offsets.assign(requests.size(), -1);
  FreeRanges free;
  for_each_birth(
      requests, [&](std::size_t i) { free.give_back(arena.offsets[i], aligned(requests[i].bytes)); },
      [&](std::size_t i) { arena.offsets[i] = free.take(aligned(requests[i].bytes)); });
  arena.bytes = free.end();
  return arena;
}

class Planner {
 public:
  explicit Planner(const std::vector<MemoryRequest>& requests) : requests_(requests), beside_(requests.size()) {
    std::vector<std::size_t> alive;
    for (const std::size_t i : by_birth(requests)) {
      std::erase_if(alive, [&](std::size_t other) { return requests[other].dead <= requests[i].born; });
      std::int64_t bytes = aligned(requests[i].bytes);
      pairs_ += alive.size();
      for (const std::size_t other : alive) {
        beside_[i].push_back(other);
        beside_[other].push_back(i);
        bytes += aligned(requests[other].bytes);
      }
      least_ = std::max(least_, bytes);
      alive.push_back(i);
    }
  }

  // Tries orders by size, size and life, life, end and begin. An order that comes out too large is mended a few times.
  Arena plan() {
    const auto bytes = [&](std::size_t i) { return static_cast<double>(requests_[i].bytes); };
    const auto life = [&](std::size_t i) { return (requests_[i].dead - requests_[i].born).value(); };
    const std::vector<std::function<double(std::size_t)>> keys{
        bytes, [&](std::size_t i) { return bytes(i) * life(i); }, life,
        [&](std::size_t i) { return requests_[i].dead.value(); },
        [&](std::size_t i) { return -requests_[i].born.value(); }};
    Arena best;
    for (const Fit fit : {Fit::Tightest, Fit::Lowest})
      for (const auto& key : keys) {
        std::vector<std::size_t> order(requests_.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::ranges::stable_sort(order, std::greater(), key);
        for (int attempt = 0; attempt < attempts(); ++attempt) {
          Arena arena = place(order, fit);
          if (best.offsets.empty() || arena.bytes < best.bytes) best = arena;
          if (best.bytes <= least_ + least_ / 200) return best;
          promote(order, arena);
        }
      }
    return best;
  }

 private:
  enum class Fit { Tightest, Lowest };

  // Fewer for large plans, so that planning stays below a second.
  int attempts() const { return static_cast<int>(std::clamp<std::size_t>(1'000'000 / (pairs_ + 1), 1, 20)); }

  // Places requests in this order, each into a gap that earlier ones leave free while it lives.
  Arena place(const std::vector<std::size_t>& order, Fit fit) const {
    Arena arena;
    arena.offsets.assign(requests_.size(), -1);
    std::vector<Range> taken;
    for (const std::size_t i : order) {
      taken.clear();
      for (const std::size_t other : beside_[i])
        if (const std::int64_t at = arena.offsets[other]; at >= 0)
          taken.push_back({at, at + aligned(requests_[other].bytes)});
      std::ranges::sort(taken, {}, &Range::first);
      std::int64_t end = 0, best = -1, best_gap = std::numeric_limits<std::int64_t>::max();
      for (const Range& t : taken) {
        if (const std::int64_t gap = t.first - end;
            gap >= requests_[i].bytes && gap < best_gap && (best < 0 || fit == Fit::Tightest)) {
          best = end;
          best_gap = gap;
        }
        end = std::max(end, t.last);
      }
      arena.offsets[i] = best < 0 ? end : best;
      arena.bytes = std::max(arena.bytes, arena.offsets[i] + aligned(requests_[i].bytes));
    }
    return arena;
  }

  // Requests that ended up above the least possible size are placed first the next time.
  void promote(std::vector<std::size_t>& order, const Arena& arena) const {
    std::ranges::stable_partition(
        order, [&](std::size_t i) { return arena.offsets[i] + aligned(requests_[i].bytes) > least_; });
  }

  const std::vector<MemoryRequest>& requests_;
  std::vector<std::vector<std::size_t>> beside_;  // by request: those that live at some time when it does
  std::size_t pairs_ = 0;                         // of those
  std::int64_t least_ = 0;                        // the most that lives at one time
};

}  // namespace

Arena plan_arena(const std::vector<MemoryRequest>& requests) {
  constexpr std::size_t most_pairs = 1'000'000;  // that many trials can remember in 16 MB
  if (count_pairs(requests) > most_pairs) return place_in_time(requests);
  return Planner(requests).plan();
}

}  // namespace dovetail

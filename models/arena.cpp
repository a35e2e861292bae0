#include "models/arena.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

namespace dovetail {
namespace {

struct Range {
  std::int64_t first, last;
};

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + Arena::alignment - 1) / Arena::alignment * Arena::alignment;
}

// Places the requests in this order, each into the tightest gap that those placed before it leave free while it lives.
Arena place(const std::vector<MemoryRequest>& requests, const std::vector<std::size_t>& order) {
  Arena arena;
  arena.offsets.resize(requests.size());
  std::vector<std::size_t> placed;
  std::vector<Range> taken;
  for (const std::size_t i : order) {
    const MemoryRequest& r = requests[i];
    taken.clear();
    for (const std::size_t other : placed)
      if (requests[other].born < r.dead && r.born < requests[other].dead)
        taken.push_back({arena.offsets[other], arena.offsets[other] + aligned(requests[other].bytes)});
    std::ranges::sort(taken, {}, &Range::first);
    std::int64_t end = 0, best = -1, best_gap = std::numeric_limits<std::int64_t>::max();
    for (const Range& t : taken) {
      if (const std::int64_t gap = t.first - end; gap >= r.bytes && gap < best_gap) {
        best = end;
        best_gap = gap;
      }
      end = std::max(end, t.last);
    }
    arena.offsets[i] = best < 0 ? end : best;
    arena.bytes = std::max(arena.bytes, arena.offsets[i] + aligned(r.bytes));
    placed.push_back(i);
  }
  return arena;
}

}  // namespace

Arena plan_arena(const std::vector<MemoryRequest>& requests) {
  const auto bytes = [&](std::size_t i) { return static_cast<double>(requests[i].bytes); };
  const auto life = [&](std::size_t i) { return (requests[i].dead - requests[i].born).value(); };
  const std::vector<std::function<double(std::size_t)>> keys{
      [&](std::size_t i) { return bytes(i); },
      [&](std::size_t i) { return bytes(i) * life(i); },
      life,
      [&](std::size_t i) { return -requests[i].born.value(); },
      [&](std::size_t i) { return requests[i].dead.value(); },
  };
  Arena best;
  for (const auto& key : keys) {
    std::vector<std::size_t> order(requests.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::greater(), key);
    Arena arena = place(requests, order);
    if (best.offsets.empty() || arena.bytes < best.bytes) best = std::move(arena);
  }
  return best;
}

}  // namespace dovetail

#include "models/time/arena.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <queue>

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

// In the order of their births, each into the tightest gap, as an allocator does that knows no future.
class Allocator {
 public:
  explicit Allocator(const std::vector<MemoryRequest>& requests) : requests_(requests) {}

  Arena run() {
    arena_.offsets.assign(requests_.size(), 0);
    const auto later = [&](std::size_t a, std::size_t b) { return requests_[a].dead > requests_[b].dead; };
    std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(later)> alive(later);
    for (const std::size_t i : by_birth(requests_)) {
      for (; !alive.empty() && requests_[alive.top()].dead <= requests_[i].born; alive.pop()) release(alive.top());
      take(i);
      alive.push(i);
    }
    return std::move(arena_);
  }

 private:
  void take(std::size_t i) {
    const std::int64_t bytes = aligned(requests_[i].bytes);
    auto best = gaps_.end();
    for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap)
      if (size(*gap) >= bytes && (best == gaps_.end() || size(*gap) < size(*best))) best = gap;
    if (best == gaps_.end()) {
      arena_.offsets[i] = arena_.bytes;
      arena_.bytes += bytes;
      return;
    }
    const auto [first, last] = *best;
    gaps_.erase(best);
    arena_.offsets[i] = first;
    if (first + bytes < last) gaps_[first + bytes] = last;
  }

  void release(std::size_t i) {
    std::int64_t first = arena_.offsets[i], last = first + aligned(requests_[i].bytes);
    if (first == last) return;
    auto after = gaps_.lower_bound(first);
    if (after != gaps_.end() && after->first == last) {
      last = after->second;
      after = gaps_.erase(after);
    }
    if (after != gaps_.begin())
      if (const auto before = std::prev(after); before->second == first) {
        first = before->first;
        gaps_.erase(before);
      }
    gaps_[first] = last;
  }

  static std::int64_t size(const std::pair<const std::int64_t, std::int64_t>& gap) { return gap.second - gap.first; }

  const std::vector<MemoryRequest>& requests_;
  std::map<std::int64_t, std::int64_t> gaps_;  // from first to last, below the end of the arena
  Arena arena_;
};

// How many pairs live at the same time, or any larger number where that is more than `most`.
std::size_t count_pairs(const std::vector<MemoryRequest>& requests, std::size_t most) {
  std::vector<Seconds> deaths;
  for (const MemoryRequest& request : requests) deaths.push_back(request.dead);
  std::ranges::sort(deaths);
  std::size_t pairs = 0, born = 0, dead = 0;
  for (const std::size_t i : by_birth(requests)) {
    while (dead < deaths.size() && deaths[dead] <= requests[i].born) ++dead;
    pairs += born++ - std::min(born, dead);
    if (pairs > most) break;
  }
  return pairs;
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

  // By size, size and life, life, end or begin; each put right a few times where it comes out too large.
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

  // In this order, each into a gap that those placed before it leave free while it lives.
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

  // What ended up above the least that can be reached is placed first the next time.
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
  constexpr std::size_t most_pairs = 10'000'000;  // 160 MB and a second; a step of 60 layers has a tenth of that
  if (count_pairs(requests, most_pairs) > most_pairs) return Allocator(requests).run();
  return Planner(requests).plan();
}

}  // namespace dovetail

#include "models/memory.hpp"

#include <algorithm>
#include <limits>

#include "models/errors.hpp"

namespace dovetail {

namespace {

struct Lifetime {
  double born = std::numeric_limits<double>::infinity(), dead = 0;
};

std::vector<Lifetime> lifetimes(const Schedule& s, const Timeline& timeline) {
  std::vector<Lifetime> of(s.tensors.size());
  for (std::size_t i = 0; i < s.ops.size(); ++i) {
    const auto [start, finish] = timeline.ops[i];
    for (TensorId t : s.writes_of(s.ops[i])) {
      Lifetime& life = of[static_cast<std::size_t>(t)];
      life.born = std::min(life.born, start.value());
      life.dead = std::max(life.dead, finish.value());
    }
    for (TensorId t : s.reads_of(s.ops[i])) {
      Lifetime& life = of[static_cast<std::size_t>(t)];
      life.dead = std::max(life.dead, finish.value());
    }
  }
  return of;
}

MemoryUse use_of_class(const Schedule& s, const std::vector<Lifetime>& lifetimes, int rank_class) {
  struct Change {
    double at, bytes;
  };
  MemoryUse use;
  std::vector<Change> changes;
  for (std::size_t t = 0; t < s.tensors.size(); ++t) {
    if (s.tensors[t].rank_class != rank_class) continue;
    if (s.tensors[t].persistent) {
      use.persistent += s.tensors[t].bytes();
      continue;
    }
    if (lifetimes[t].born == std::numeric_limits<double>::infinity()) continue;
    changes.push_back({lifetimes[t].born, s.tensors[t].bytes().value()});
    changes.push_back({lifetimes[t].dead, -s.tensors[t].bytes().value()});
  }
  // At one moment what ends is freed before what starts is placed.
  std::ranges::sort(changes,
                    [](const Change& a, const Change& b) { return a.at != b.at ? a.at < b.at : a.bytes < b.bytes; });
  double alive = 0, peak = 0;
  for (const Change& change : changes) {
    alive += change.bytes;
    if (alive <= peak) continue;
    peak = alive;
    use.peak_at = Seconds(change.at);
  }
  use.peak = use.persistent + Bytes(peak);
  return use;
}

}  // namespace

std::vector<MemoryUse> memory_by_class(const Schedule& s, const Timeline& timeline) {
  check(timeline.ops.size() == s.ops.size(), "timeline of another schedule");
  const std::vector<Lifetime> of_tensors = lifetimes(s, timeline);
  std::vector<MemoryUse> uses;
  for (std::size_t c = 0; c < s.classes.size(); ++c) uses.push_back(use_of_class(s, of_tensors, static_cast<int>(c)));
  return uses;
}

MemoryUse memory_use(const Schedule& s, const Timeline& timeline) {
  return std::ranges::max(memory_by_class(s, timeline), {}, &MemoryUse::peak);
}

}  // namespace dovetail

#include "models/memory.hpp"

#include <algorithm>
#include <limits>

#include "models/errors.hpp"

namespace dovetail {

MemoryUse memory_use(const Schedule& s, const Timeline& timeline) {
  check(timeline.ops.size() == s.ops.size(), "timeline of another schedule");
  constexpr double never = std::numeric_limits<double>::infinity();
  std::vector<double> born(s.tensors.size(), never), dead(s.tensors.size(), 0);
  for (std::size_t i = 0; i < s.ops.size(); ++i) {
    const auto [start, finish] = timeline.ops[i];
    for (TensorId t : s.writes_of(s.ops[i])) {
      const auto at = static_cast<std::size_t>(t);
      born[at] = std::min(born[at], start.value());
      dead[at] = std::max(dead[at], finish.value());
    }
    for (TensorId t : s.reads_of(s.ops[i])) {
      const auto at = static_cast<std::size_t>(t);
      dead[at] = std::max(dead[at], finish.value());
    }
  }
  struct Change {
    double at, bytes;
  };
  MemoryUse use;
  std::vector<Change> changes;
  for (std::size_t t = 0; t < s.tensors.size(); ++t) {
    if (s.tensors[t].persistent) {
      use.persistent += s.tensors[t].bytes();
      continue;
    }
    if (born[t] == never) continue;
    changes.push_back({born[t], s.tensors[t].bytes().value()});
    changes.push_back({dead[t], -s.tensors[t].bytes().value()});
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

}  // namespace dovetail

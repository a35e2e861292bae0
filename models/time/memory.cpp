// SPDX-License-Identifier: Apache-2.0
#include "models/time/memory.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <span>

#include "models/base/errors.hpp"
#include "models/time/arena.hpp"
#include "models/time/blocks.hpp"
#include "models/time/merged_lists.hpp"

namespace dovetail {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

struct Life {
  double born = never, dead = 0;
  OpId first, last;  // whose start and end these are
  bool used() const { return born < never; }

  void begin(OpId op, Seconds at) {
    if (at.value() >= born) return;
    born = at.value();
    first = op;
  }
  void go_on(OpId op, Seconds until) {
    if (last.exists() && until.value() <= dead) return;
    dead = until.value();
    last = op;
  }
};

IdVector<BlockId, Life> lives(const Schedule& s, const Blocks& blocks, const Timeline& timeline) {
  check(timeline.ops.size() == s.ops.size(), "timeline of another schedule");
  IdVector<BlockId, Life> all(blocks.all.size());
  for (const OpId i : s.ops.ids()) {
    const auto [start, finish] = timeline.ops[i];
    const auto life_of = [&](TensorId t) -> Life& { return all[blocks.of_tensor[t]]; };
    for (TensorId t : s.writes_of(s.ops[i])) {
      life_of(t).begin(i, start);
      life_of(t).go_on(i, finish);
    }
    for (TensorId t : s.reads_of(s.ops[i])) life_of(t).go_on(i, finish);
  }
  return all;
}

// The blocks of one rank class in one place.
struct Site {
  int rank_class = 0;
  Place place = Place::Device;
  bool holds(const Tensor& t) const { return t.rank_class == rank_class && t.place == place; }
};

// Persistent blocks side by side, then an arena for the others. Returns its size.
std::int64_t plan_site(const Schedule& s, const Blocks& blocks, const IdVector<BlockId, Life>& lives, Site site,
                       IdVector<BlockId, std::int64_t>& offsets) {
  std::int64_t first = 0;
  std::vector<MemoryRequest> requests;
  std::vector<BlockId> block_of;
  for (const BlockId b : blocks.all.ids()) {
    const Tensor& t = s.tensors[blocks.all[b].first];
    const auto bytes = static_cast<std::int64_t>(blocks.all[b].bytes.value());
    if (!site.holds(t)) continue;
    if (t.persistent) {
      offsets[b] = first;
      first += (bytes + Arena::alignment - 1) / Arena::alignment * Arena::alignment;
    } else if (lives[b].used()) {
      requests.push_back({bytes, Seconds(lives[b].born), Seconds(lives[b].dead)});
      block_of.push_back(b);
    }
  }
  const Arena arena = plan_arena(requests);
  for (std::size_t i = 0; i < block_of.size(); ++i) offsets[block_of[i]] = first + arena.offsets[i];
  return first + arena.bytes;
}

// Bytes of each class, by place.
struct ClassMemory {
  Bytes device, host;
};
std::vector<ClassMemory> plan_classes(const Schedule& s, const Blocks& blocks, const IdVector<BlockId, Life>& lives,
                                      IdVector<BlockId, std::int64_t>& offsets) {
  const auto bytes = [&](Site site) { return Bytes(static_cast<double>(plan_site(s, blocks, lives, site, offsets))); };
  std::vector<ClassMemory> classes;
  for (int c = 0; c < static_cast<int>(s.classes.size()); ++c)
    classes.push_back({bytes({c, Place::Device}), bytes({c, Place::Host})});
  return classes;
}

// A change of what a class of ranks holds. At one moment what ends is freed before what starts is placed.
struct MemoryChange {
  double at, bytes;
  friend bool operator<(const MemoryChange& a, const MemoryChange& b) {
    return a.at != b.at ? a.at < b.at : a.bytes < b.bytes;
  }
};

using MemoryChanges = std::vector<MemoryChange>;

// Ops place memory at their start and free some at their end. Ops of other classes place and free what is sent between
// pipeline stages.
struct ChangesByStream {
  IdVector<StreamId, MemoryChanges> starts, ends;
  std::vector<MemoryChanges> elsewhere;  // by class
};

ChangesByStream changes_by_stream(const Schedule& s, const Timeline& timeline, const Blocks& blocks,
                                  const IdVector<BlockId, Life>& life) {
  ChangesByStream changes{IdVector<StreamId, MemoryChanges>(s.streams.size()),
                          IdVector<StreamId, MemoryChanges>(s.streams.size()),
                          std::vector<MemoryChanges>(s.classes.size())};
  IdVector<OpId, StreamId> stream_of;  // apart from the ops, which are large
  stream_of.reserve(s.ops.size());
  for (const Op& op : s.ops) stream_of.push_back(op.stream);
  IdVector<OpId, double> placed(s.ops.size()), freed(s.ops.size());
  for (const BlockId b : blocks.all.ids()) {
    const Tensor& t = s.tensors[blocks.all[b].first];
    if (t.persistent || t.place == Place::Host || !life[b].used()) continue;
    const double bytes = blocks.all[b].bytes.value();
    MemoryChanges& elsewhere = changes.elsewhere[static_cast<std::size_t>(t.rank_class)];
    const auto is_here = [&](OpId op) { return s.streams[stream_of[op]].rank_class == t.rank_class; };
    is_here(life[b].first) ? void(placed[life[b].first] += bytes) : elsewhere.push_back({life[b].born, bytes});
    is_here(life[b].last) ? void(freed[life[b].last] += bytes) : elsewhere.push_back({life[b].dead, -bytes});
  }
  for (const OpId i : stream_of.ids()) {
    if (placed[i] > 0) changes.starts[stream_of[i]].push_back({timeline.ops[i].start.value(), placed[i]});
    if (freed[i] > 0) changes.ends[stream_of[i]].push_back({timeline.ops[i].finish.value(), -freed[i]});
  }
  return changes;
}

// The lists of each class, by time. A stream starts and ends its ops in order, so that its changes come sorted.
std::vector<std::vector<std::span<const MemoryChange>>> lists_of_classes(const Schedule& s, ChangesByStream& changes) {
  std::vector<std::vector<std::span<const MemoryChange>>> lists(s.classes.size());
  const auto add = [&](std::size_t rank_class, MemoryChanges& list) {
    if (!std::ranges::is_sorted(list, std::less())) std::ranges::sort(list, std::less());
    lists[rank_class].emplace_back(list);
  };
  for (std::size_t c = 0; c < lists.size(); ++c) add(c, changes.elsewhere[c]);
  for (const StreamId stream : s.streams.ids()) {
    add(static_cast<std::size_t>(s.streams[stream].rank_class), changes.starts[stream]);
    add(static_cast<std::size_t>(s.streams[stream].rank_class), changes.ends[stream]);
  }
  return lists;
}

// By class.
std::vector<MemoryUse> uses_of(const Schedule& s, const Timeline& timeline, const Blocks& blocks,
                               const IdVector<BlockId, Life>& life) {
  std::vector<MemoryUse> uses(s.classes.size());
  for (const BlockId b : blocks.all.ids())
    if (const Tensor& t = s.tensors[blocks.all[b].first]; t.persistent)
      uses[static_cast<std::size_t>(t.rank_class)].persistent += blocks.all[b].bytes;
  ChangesByStream changes = changes_by_stream(s, timeline, blocks, life);
  const auto lists = lists_of_classes(s, changes);
  for (std::size_t c = 0; c < uses.size(); ++c) {
    double alive = 0, peak = 0;
    visit_in_order(lists[c], [&](const MemoryChange& change) {
      alive += change.bytes;
      if (alive <= peak) return;
      peak = alive;
      uses[c].peak_at = Seconds(change.at);
    });
    uses[c].peak = uses[c].persistent + Bytes(peak);
  }
  return uses;
}

}  // namespace

std::vector<MemoryByKind> memory_by_kind(const Schedule& s, const Timeline& timeline) {
  const Blocks blocks = memory_blocks(s);
  const IdVector<BlockId, Life> life = lives(s, blocks, timeline);
  std::vector<MemoryByKind> classes(s.classes.size());
  const std::vector<MemoryUse> uses = uses_of(s, timeline, blocks, life);
  for (const BlockId b : blocks.all.ids()) {
    const Tensor& t = s.tensors[blocks.all[b].first];
    const auto c = static_cast<std::size_t>(t.rank_class);
    const double peak_at = uses[c].peak_at.value();
    const bool lives_then = life[b].used() && life[b].born <= peak_at && peak_at < life[b].dead;
    if (t.persistent || (t.place == Place::Device && lives_then))
      classes[c][static_cast<std::size_t>(memory_kind_of(t))] += blocks.all[b].bytes;
  }
  return classes;
}

MemoryPlan plan_memory(const Schedule& s, const Timeline& timeline) {
  const Blocks blocks = memory_blocks(s);
  IdVector<BlockId, std::int64_t> offsets(blocks.all.size(), -1);
  MemoryPlan plan;
  for (const ClassMemory& c : plan_classes(s, blocks, lives(s, blocks, timeline), offsets)) {
    plan.device = std::max(plan.device, c.device);
    plan.host = std::max(plan.host, c.host);
  }
  plan.offsets.reserve(blocks.of_tensor.size());
  for (BlockId block : blocks.of_tensor) plan.offsets.push_back(offsets[block]);
  return plan;
}

std::vector<MemoryUse> memory_by_class(const Schedule& s, const Timeline& timeline, Arenas arenas) {
  const Blocks blocks = memory_blocks(s);
  const IdVector<BlockId, Life> life = lives(s, blocks, timeline);
  std::vector<MemoryUse> uses = uses_of(s, timeline, blocks, life);
  if (arenas == Arenas::LeftOut) return uses;
  IdVector<BlockId, std::int64_t> offsets(blocks.all.size(), -1);
  const std::vector<ClassMemory> planned = plan_classes(s, blocks, life, offsets);
  for (std::size_t c = 0; c < uses.size(); ++c) {
    uses[c].arena = planned[c].device;
    uses[c].pinned = planned[c].host;
  }
  return uses;
}

MemoryUse memory_use(const Schedule& s, const Timeline& timeline, Arenas arenas) {
  return std::ranges::max(memory_by_class(s, timeline, arenas), {}, &MemoryUse::peak);
}

}  // namespace dovetail

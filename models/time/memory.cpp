// SPDX-License-Identifier: Apache-2.0
#include "models/time/memory.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <utility>

#include "models/base/errors.hpp"
#include "models/time/arena.hpp"
#include "models/time/blocks.hpp"
#include "models/time/merged_lists.hpp"

namespace dovetail {
namespace {

// The ops whose start and end are those of a block.
struct Life {
  OpId first, last;
  bool used() const { return first.exists(); }
};

class Lives {
 public:
  Lives(const Schedule& s, const Blocks& blocks, const Timeline& timeline)
      : timeline_(timeline), all_(blocks.all.size()) {
    check(timeline.ops.size() == s.ops.size(), "timeline of another schedule");
    for (const OpId i : s.ops.ids()) {
      const auto life_of = [&](TensorId t) -> Life& { return all_[blocks.of_tensor[t]]; };
      for (TensorId t : s.writes_of(s.ops[i])) {
        begin(life_of(t), i);
        go_on(life_of(t), i);
      }
      for (TensorId t : s.reads_of(s.ops[i])) go_on(life_of(t), i);
    }
  }

  const Life& operator[](BlockId block) const { return all_[block]; }
  Seconds born(BlockId block) const { return timeline_.ops[all_[block].first].start; }
  Seconds dead(BlockId block) const { return timeline_.ops[all_[block].last].finish; }

 private:
  void begin(Life& life, OpId op) const {
    if (!life.first.exists() || timeline_.ops[op].start < timeline_.ops[life.first].start) life.first = op;
  }
  void go_on(Life& life, OpId op) const {
    if (!life.last.exists() || timeline_.ops[op].finish > timeline_.ops[life.last].finish) life.last = op;
  }

  const Timeline& timeline_;
  IdVector<BlockId, Life> all_;
};

// The blocks of one rank class in one place.
struct Site {
  int rank_class = 0;
  Place place = Place::Device;
  bool holds(const Tensor& t) const { return t.rank_class == rank_class && t.place == place; }
};

// Persistent blocks side by side, then an arena for the others. Returns its size.
std::int64_t plan_site(const Schedule& s, const Blocks& blocks, const Lives& lives, Site site,
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
      requests.push_back({bytes, lives.born(b), lives.dead(b)});
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
std::vector<ClassMemory> plan_classes(const Schedule& s, const Blocks& blocks, const Lives& lives,
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
struct MemoryOfOps {
  IdVector<OpId, double> placed, freed;  // by ops of the class that has the memory
  std::vector<MemoryChanges> elsewhere;  // by that class: the others'
};

MemoryOfOps memory_of_ops(const Schedule& s, const Blocks& blocks, const Lives& lives) {
  IdVector<OpId, StreamId> stream_of;  // apart from the ops, which are large
  stream_of.reserve(s.ops.size());
  for (const Op& op : s.ops) stream_of.push_back(op.stream);
  MemoryOfOps of{IdVector<OpId, double>(s.ops.size()), IdVector<OpId, double>(s.ops.size()),
                 std::vector<MemoryChanges>(s.classes.size())};
  for (const BlockId b : blocks.all.ids()) {
    const Tensor& t = s.tensors[blocks.all[b].first];
    if (t.persistent || t.place == Place::Host || !lives[b].used()) continue;
    const double bytes = blocks.all[b].bytes.value();
    MemoryChanges& elsewhere = of.elsewhere[static_cast<std::size_t>(t.rank_class)];
    const auto is_here = [&](OpId op) { return s.streams[stream_of[op]].rank_class == t.rank_class; };
    const auto [first, last] = lives[b];
    is_here(first) ? void(of.placed[first] += bytes) : elsewhere.push_back({lives.born(b).value(), bytes});
    is_here(last) ? void(of.freed[last] += bytes) : elsewhere.push_back({lives.dead(b).value(), -bytes});
  }
  return of;
}

struct ChangesByStream {
  IdVector<StreamId, MemoryChanges> starts, ends;
};

ChangesByStream changes_by_stream(const Schedule& s, const Timeline& timeline, const MemoryOfOps& of) {
  IdVector<StreamId, std::size_t> starts(s.streams.size()), ends(s.streams.size());
  for (const OpId i : s.ops.ids()) {
    starts[s.ops[i].stream] += of.placed[i] > 0 ? 1 : 0;
    ends[s.ops[i].stream] += of.freed[i] > 0 ? 1 : 0;
  }
  ChangesByStream changes{IdVector<StreamId, MemoryChanges>(s.streams.size()),
                          IdVector<StreamId, MemoryChanges>(s.streams.size())};
  for (const StreamId stream : s.streams.ids()) {
    changes.starts[stream].reserve(starts[stream]);
    changes.ends[stream].reserve(ends[stream]);
  }
  for (const OpId i : s.ops.ids()) {
    const StreamId stream = s.ops[i].stream;
    if (of.placed[i] > 0) changes.starts[stream].push_back({timeline.ops[i].start.value(), of.placed[i]});
    if (of.freed[i] > 0) changes.ends[stream].push_back({timeline.ops[i].finish.value(), -of.freed[i]});
  }
  return changes;
}

// The lists of each class, by time. A stream starts and ends its ops in order, so that its changes come sorted.
std::vector<std::vector<std::span<const MemoryChange>>> lists_of_classes(const Schedule& s, ChangesByStream& changes,
                                                                         std::vector<MemoryChanges>& elsewhere) {
  std::vector<std::vector<std::span<const MemoryChange>>> lists(s.classes.size());
  const auto add = [&](std::size_t rank_class, MemoryChanges& list) {
    if (!std::ranges::is_sorted(list, std::less())) std::ranges::sort(list, std::less());
    lists[rank_class].emplace_back(list);
  };
  for (std::size_t c = 0; c < lists.size(); ++c) add(c, elsewhere[c]);
  for (const StreamId stream : s.streams.ids()) {
    add(static_cast<std::size_t>(s.streams[stream].rank_class), changes.starts[stream]);
    add(static_cast<std::size_t>(s.streams[stream].rank_class), changes.ends[stream]);
  }
  return lists;
}

// Adds to the use of each class.
void add_persistent(const Schedule& s, const Blocks& blocks, std::vector<MemoryUse>& uses) {
  for (const BlockId b : blocks.all.ids())
    if (const Tensor& t = s.tensors[blocks.all[b].first]; t.persistent)
      uses[static_cast<std::size_t>(t.rank_class)].persistent += blocks.all[b].bytes;
}

void add_arenas(const Schedule& s, const Blocks& blocks, const Lives& lives, std::vector<MemoryUse>& uses) {
  IdVector<BlockId, std::int64_t> offsets(blocks.all.size(), -1);
  const std::vector<ClassMemory> planned = plan_classes(s, blocks, lives, offsets);
  for (std::size_t c = 0; c < uses.size(); ++c) {
    uses[c].arena = planned[c].device;
    uses[c].pinned = planned[c].host;
  }
}

void add_peaks(const Schedule& s, const Timeline& timeline, MemoryOfOps of, std::vector<MemoryUse>& uses) {
  ChangesByStream changes = changes_by_stream(s, timeline, of);
  const auto lists = lists_of_classes(s, changes, of.elsewhere);
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
}

}  // namespace

std::vector<MemoryByKind> memory_by_kind(const Schedule& s, const Timeline& timeline) {
  const std::vector<MemoryUse> uses = memory_by_class(s, timeline, Arenas::LeftOut);
  const Blocks blocks = memory_blocks(s);
  const Lives lives(s, blocks, timeline);
  std::vector<MemoryByKind> classes(s.classes.size());
  for (const BlockId b : blocks.all.ids()) {
    const Tensor& t = s.tensors[blocks.all[b].first];
    const auto c = static_cast<std::size_t>(t.rank_class);
    const Seconds peak_at = uses[c].peak_at;
    const bool lives_then = lives[b].used() && lives.born(b) <= peak_at && peak_at < lives.dead(b);
    if (t.persistent || (t.place == Place::Device && lives_then))
      classes[c][static_cast<std::size_t>(memory_kind_of(t))] += blocks.all[b].bytes;
  }
  return classes;
}

MemoryPlan plan_memory(const Schedule& s, const Timeline& timeline) {
  const Blocks blocks = memory_blocks(s);
  IdVector<BlockId, std::int64_t> offsets(blocks.all.size(), -1);
  MemoryPlan plan;
  for (const ClassMemory& c : plan_classes(s, blocks, Lives(s, blocks, timeline), offsets)) {
    plan.device = std::max(plan.device, c.device);
    plan.host = std::max(plan.host, c.host);
  }
  plan.offsets.reserve(blocks.of_tensor.size());
  for (BlockId block : blocks.of_tensor) plan.offsets.push_back(offsets[block]);
  return plan;
}

std::vector<MemoryUse> memory_by_class(const Schedule& s, const Timeline& timeline, Arenas arenas) {
  std::vector<MemoryUse> uses(s.classes.size());
  MemoryOfOps of;
  {  // the blocks of a long step take as much memory as the changes that follow from them
    const Blocks blocks = memory_blocks(s);
    const Lives lives(s, blocks, timeline);
    add_persistent(s, blocks, uses);
    if (arenas == Arenas::Planned) add_arenas(s, blocks, lives, uses);
    of = memory_of_ops(s, blocks, lives);
  }
  add_peaks(s, timeline, std::move(of), uses);
  return uses;
}

MemoryUse memory_use(const Schedule& s, const Timeline& timeline, Arenas arenas) {
  return std::ranges::max(memory_by_class(s, timeline, arenas), {}, &MemoryUse::peak);
}

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
#include "exec/host/rank_memory.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "exec/step/lasting_tensors.hpp"

namespace dovetail::exec {
namespace {

class BufferPlanner {
 public:
  explicit BufferPlanner(int rank) : rank_(rank) {}

  void add(const Schedule& s) {
    const Blocks blocks = memory_blocks(s);
    IdVector<BlockId, int>& buffer_of = plan_.of_schedule.emplace_back(blocks.all.size(), -1);
    std::map<TensorId, LastingName> lasting;
    for (const LastingTensor& tensor : lasting_tensors(s, rank_)) lasting.emplace(tensor.id, tensor.name);
    std::vector<BlockId> others;
    for (const BlockId id : blocks.all.ids()) {
      const Block& block = blocks.all[id];
      if (s.tensors[block.first].rank_class != s.class_of_rank(rank_)) continue;
      if (const auto name = lasting.find(block.first); name != lasting.end())
        buffer_of[id] = lasting_buffer(name->second, block.elements);
      else
        others.push_back(id);
    }
    share_out(blocks, others, buffer_of);
  }

  BufferPlan plan() && { return std::move(plan_); }

 private:
  int new_buffer(std::int64_t elements) {
    plan_.elements.push_back(elements);
    return static_cast<int>(plan_.elements.size()) - 1;
  }

  int lasting_buffer(const LastingName& name, std::int64_t elements) {
    const auto found = lasting_.find(name);
    return found != lasting_.end() ? found->second : lasting_[name] = new_buffer(elements);
  }

  void share_out(const Blocks& blocks, std::vector<BlockId>& own, IdVector<BlockId, int>& buffer_of) {
    if (!in_turn_.empty()) {
      std::ranges::stable_sort(own, std::ranges::greater(), [&](BlockId id) { return blocks.all[id].elements; });
      std::ranges::stable_sort(in_turn_, std::ranges::greater(), [&](int buffer) { return size(buffer); });
    }
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (i == in_turn_.size()) in_turn_.push_back(new_buffer(0));
      size(in_turn_[i]) = std::max(size(in_turn_[i]), blocks.all[own[i]].elements);
      buffer_of[own[i]] = in_turn_[i];
    }
  }
  std::int64_t& size(int buffer) { return plan_.elements[static_cast<std::size_t>(buffer)]; }

  int rank_;
  BufferPlan plan_;
  std::map<LastingName, int> lasting_;
  std::vector<int> in_turn_;  // buffers of what no step leaves to the next
};

}  // namespace

std::int64_t BufferPlan::all_elements() const {
  return std::reduce(elements.begin(), elements.end());
}

BufferPlan plan_buffers(const Schedules& schedules, int rank) {
  BufferPlanner planner(rank);
  for (const auto& schedule : schedules) planner.add(*schedule);
  return std::move(planner).plan();
}

}  // namespace dovetail::exec

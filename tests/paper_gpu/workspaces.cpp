// SPDX-License-Identifier: Apache-2.0
#include "tests/paper_gpu/workspaces.hpp"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "tests/paper_gpu/report.hpp"

namespace paper {
namespace {

// A product, given to the GPU or captured.
struct Use {
  TaskPtr task;
  std::shared_ptr<Graph> graph;
  int node = 0;
};

std::map<const void*, Use>& last_uses() {
  static auto* const all = new std::map<const void*, Use>;
  return *all;
}

// Whether later work waits for a task, directly or by way of others. Tasks that have ended are waited for by all.
bool waits_for(const TaskPtr& later, const TaskPtr& task) {
  std::unordered_set<const Task*> seen;
  std::vector<const Task*> left{task.get()};
  while (!left.empty()) {
    const Task* const here = left.back();
    left.pop_back();
    if (here == later.get() || here->finished >= 0) return true;
    if (!seen.insert(here).second) continue;
    for (const TaskPtr& next : here->next) left.push_back(next.get());
  }
  return false;
}

bool waits_for(const Graph& graph, int later, int node) {
  std::vector<bool> seen(graph.nodes.size());
  std::vector<int> left{later};
  while (!left.empty()) {
    const auto here = static_cast<std::size_t>(left.back());
    left.pop_back();
    if (static_cast<int>(here) == node) return true;
    if (static_cast<int>(here) < node || seen[here]) continue;  // nodes wait for earlier ones alone
    seen[here] = true;
    left.insert(left.end(), graph.nodes[here].after.begin(), graph.nodes[here].after.end());
  }
  return false;
}

}  // namespace

void use_workspace(const void* workspace, const Stream& stream) {
  Use now;
  if (stream.capture != nullptr) {
    now.graph = stream.capture->graph;
    now.node = stream.captured_after.front();
  } else {
    now.task = stream.last;
  }
  Use& last = last_uses()[workspace];
  const bool ordered = now.graph != nullptr ? last.graph != now.graph || waits_for(*now.graph, now.node, last.node)
                                            : last.task == nullptr || waits_for(now.task, last.task);
  if (!ordered) problem("products that do not wait for each other share a workspace");
  last = now;
}

}  // namespace paper

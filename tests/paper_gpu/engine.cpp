// SPDX-License-Identifier: Apache-2.0
#include "tests/paper_gpu/engine.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "tests/paper_gpu/memory.hpp"
#include "tests/paper_gpu/report.hpp"
#include "tests/paper_gpu/settings.hpp"

namespace paper {
namespace {

// A time of today, as %globaltimer has it: products of such times and of bytes pass 2^63.
constexpr std::int64_t clock_at_start = std::int64_t{1'795'788'000} * 1'000'000'000;

class Engine {
 public:
  double host = 0;  // when the host makes its next call

  long next_order() { return ++order_; }

  void add(const TaskPtr& task) {
    if (task->waits_for == 0) may_run(task);
  }

  // False: the task never ends.
  bool run_until_finished(const Task& task) {
    while (task.finished < 0)
      if (!step()) return false;
    return true;
  }
  double run_all() {
    while (step()) {
    }
    return now_;
  }

 private:
  void may_run(const TaskPtr& task) {
    if (task->given > now_)
      future_.emplace(std::pair(task->given, task->order), task);
    else
      ready_[static_cast<std::size_t>(unit_of(*task))].emplace(std::pair(task->priority, task->order), task);
  }

  static Unit unit_of(const Task& task) { return task.work == nullptr ? Unit::None : task.work->unit; }

  // Starts what can start now, else goes on to the next moment. False: nothing is left.
  bool step() {
    if (start_some()) return true;
    const double infinite = INFINITY;
    const double next = std::min(running_.empty() ? infinite : running_.begin()->first.first,
                                 future_.empty() ? infinite : future_.begin()->first.first);
    if (next == infinite) return false;
    now_ = std::max(now_, next);
    while (!running_.empty() && running_.begin()->first.first <= now_)
      finish(running_.extract(running_.begin()).mapped());
    while (!future_.empty() && future_.begin()->first.first <= now_) may_run(future_.extract(future_.begin()).mapped());
    return true;
  }

  // Exchanges come before products: their queues have the higher priority.
  bool start_some() {
    bool any = false;
    for (std::size_t unit = 0; unit < units; ++unit) {
      auto& ready = ready_[unit];
      while (!ready.empty() && has_room(static_cast<Unit>(unit), *ready.begin()->second)) {
        start(ready.extract(ready.begin()).mapped());
        any = true;
      }
    }
    return any;
  }

  bool has_room(Unit unit, const Task& task) const {
    if (unit == Unit::None) return true;
    if (unit == Unit::Exchange)
      return task.work->multiprocessors <= settings().multiprocessors -
                                               held_[static_cast<std::size_t>(Unit::Exchange)] -
                                               held_[static_cast<std::size_t>(Unit::Products)];
    return busy_[static_cast<std::size_t>(unit)] == 0;
  }

  // A product is made for its blocks: where they do not all fit beside exchanges, the rest takes a second round.
  double duration(const Work& work) const {
    const int exchanged = held_[static_cast<std::size_t>(Unit::Exchange)];
    const bool beside = busy_[static_cast<std::size_t>(Unit::Exchange)] > 0;
    switch (work.unit) {
      case Unit::Products:
        return work.seconds / (work.multiprocessors > settings().multiprocessors - exchanged ? settings().beside : 1);
      case Unit::Memory:
      case Unit::ToHost:
      case Unit::FromHost:
        return work.seconds / (beside ? settings().beside_memory : 1);
      default:
        return work.seconds;
    }
  }

  void start(const TaskPtr& task) {
    if (task->work == nullptr) return finish(task);
    const Work& work = *task->work;
    if (task->of_graph)
      for (const Access& access : work.accesses) reachable(access.at, access.bytes, access.who);
    const double end = work.begin ? work.begin(now_) : now_ + duration(work);
    const auto unit = static_cast<std::size_t>(work.unit);
    task->holds = work.multiprocessors;
    held_[unit] += task->holds;
    ++busy_[unit];
    running_.emplace(std::pair(end, task->order), task);
  }

  void finish(const TaskPtr& task) {
    task->finished = now_;
    if (task->work != nullptr) {
      const auto unit = static_cast<std::size_t>(task->work->unit);
      held_[unit] -= task->holds;
      --busy_[unit];
      if (task->work->end) task->work->end(now_);
    }
    for (const TaskPtr& next : std::exchange(task->next, {}))
      if (--next->waits_for == 0) may_run(next);
  }

  using Ordered = std::pair<int, long>;  // by priority, then by age
  using Timed = std::pair<double, long>;
  double now_ = 0;
  long order_ = 0;
  std::array<std::map<Ordered, TaskPtr>, units> ready_;
  std::map<Timed, TaskPtr> running_, future_;
  std::array<int, units> held_{}, busy_{};  // multiprocessors, tasks
};

Engine& engine() {
  static auto* const own = new Engine;
  return *own;
}

void follows(const TaskPtr& task, const TaskPtr& before) {
  if (before == nullptr || before->finished >= 0) return;
  before->next.push_back(task);
  ++task->waits_for;
}

// Made together; they live as long as one of them is needed.
std::vector<TaskPtr> tasks_of(const Graph& graph) {
  const auto all = std::make_shared<std::vector<Task>>(graph.nodes.size());
  std::vector<TaskPtr> tasks;
  tasks.reserve(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    Task& task = (*all)[i];
    task.work = graph.nodes[i].work;
    task.priority = graph.nodes[i].priority;
    task.of_graph = true;
    task.order = engine().next_order();
    task.given = engine().host;
    tasks.emplace_back(all, &task);
  }
  return tasks;
}

}  // namespace

TaskPtr give(WorkPtr work, int priority, const TaskPtr& after, const TaskPtr& also_after) {
  const auto task = std::make_shared<Task>();
  if (work != nullptr) {
    host_works(settings().launch_seconds);
    for (const Access& access : work->accesses) reachable(access.at, access.bytes, access.who);
  }
  task->work = std::move(work);
  task->priority = priority;
  task->order = engine().next_order();
  task->given = engine().host;
  follows(task, after);
  follows(task, also_after);
  engine().add(task);
  return task;
}

TaskPtr give(const Graph& graph, const TaskPtr& after) {
  ++counts().graph_launches;
  host_works(settings().graph_launch_seconds);
  const std::vector<TaskPtr> tasks = tasks_of(graph);
  const auto end = std::make_shared<Task>();
  end->order = engine().next_order();
  end->given = engine().host;
  follows(end, after);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (graph.nodes[i].after.empty()) follows(tasks[i], after);
    for (const int before : graph.nodes[i].after) follows(tasks[i], tasks[static_cast<std::size_t>(before)]);
  }
  for (const TaskPtr& task : tasks)
    if (task->next.empty()) follows(end, task);
  for (const TaskPtr& task : tasks) engine().add(task);
  engine().add(end);
  return end;
}

void wait_for(const TaskPtr& task) {
  if (task == nullptr) return;
  if (!engine().run_until_finished(*task)) return problem("work that never ends");
  engine().host = std::max(engine().host, task->finished);
  counts().seconds = engine().host;
}

void wait_for_all() {
  engine().host = std::max(engine().host, engine().run_all());
  counts().seconds = engine().host;
}

void host_works(double seconds) {
  engine().host += seconds;
}

bool finished(const TaskPtr& task) {
  return task != nullptr && task->finished >= 0;
}

std::int64_t ticks(double seconds) {
  return clock_at_start + std::llround(seconds * 1e9);
}

double seconds_of(std::int64_t ticks) {
  return 1e-9 * static_cast<double>(ticks - clock_at_start);
}

}  // namespace paper

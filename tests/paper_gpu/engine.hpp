// SPDX-License-Identifier: Apache-2.0
// Virtual time of the paper GPU: which work runs when, given the order that streams, events and graphs ask for and the
// parts of the GPU that work takes. Work really happens, as far as it does, in that order.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace paper {

// The part of a GPU that works for one task at a time. Exchanges share multiprocessors; marks and holds take nothing.
enum class Unit { None, Exchange, Products, Memory, ToHost, FromHost };
constexpr std::size_t units = 6;

struct Access {
  const void* at;
  std::int64_t bytes;
  std::string who;  // "a copy writes"
};

// All times in seconds since the program began.
struct Work {
  std::string name;
  Unit unit = Unit::None;
  double seconds = 0;                   // alone on the GPU
  int multiprocessors = 0;              // on which a product has blocks, or which an exchange holds
  std::vector<Access> accesses;         // checked when it is given and, in a graph, at each launch
  std::function<double(double)> begin;  // for work of its own duration: gets when it begins, returns when it ends
  std::function<void(double)> end;      // its effect, which gets when it ends
};
using WorkPtr = std::shared_ptr<const Work>;

struct Task {
  WorkPtr work;  // null: only an order, which takes no time
  int priority = 0;
  bool of_graph = false;
  long order = 0;
  int waits_for = 0;  // this many tasks
  double given = 0, finished = -1;
  int holds = 0;  // multiprocessors, while it runs
  std::vector<std::shared_ptr<Task>> next;
};
using TaskPtr = std::shared_ptr<Task>;

struct Graph {
  struct Node {
    WorkPtr work;
    int priority = 0;
    std::vector<int> after;  // nodes before it
  };
  std::vector<Node> nodes;
};

// Work that runs after `after` (which may be null) is given to the GPU, by a call that takes the host some time.
TaskPtr give(WorkPtr work, int priority, const TaskPtr& after, const TaskPtr& also_after = nullptr);
TaskPtr give(const Graph& graph, const TaskPtr& after);

// The host waits. Null: for nothing.
void wait_for(const TaskPtr& task);
void wait_for_all();
void host_works(double seconds);

bool finished(const TaskPtr& task);

// The clock that kernels read, in ns.
std::int64_t ticks(double seconds);
double seconds_of(std::int64_t ticks);

}  // namespace paper

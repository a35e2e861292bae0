// SPDX-License-Identifier: Apache-2.0
#include "exec/host/placement.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <thread>

namespace dovetail::exec {
namespace {

// Runs as soon as it wakes, where that is allowed; else in short slices, which the system lets begin earlier.
void hurry() {
  sched_param real_time{};
  real_time.sched_priority = 1;
  if (sched_setscheduler(0, SCHED_FIFO, &real_time) == 0) return;
  struct Attributes {  // of sched_setattr(2), which the C library lacks
    std::uint32_t size = sizeof(Attributes), policy = SCHED_OTHER;
    std::uint64_t flags = 0;
    std::int32_t nice = 0;
    std::uint32_t priority = 0;
    std::uint64_t runtime = 100'000, deadline = 0, period = 0;  // nanoseconds; runtime: the slice, the shortest allowed
  } slices;
  syscall(SYS_sched_setattr, 0, &slices, 0);
}

void run_on(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<std::size_t>(cpu), &set);
  sched_setaffinity(0, sizeof set, &set);
}

}  // namespace

std::vector<int> free_cpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.push_back(cpu);
  if (cpus.empty())
    for (int cpu = 0; cpu < static_cast<int>(std::thread::hardware_concurrency()) || cpu == 0; ++cpu)
      cpus.push_back(cpu);
  return cpus;
}

Placement::Placement(std::size_t ranks) {
  const std::vector<int> cpus = free_cpus();
  if (ranks == 0 || cpus.size() < ranks) return;
  const auto each = static_cast<std::ptrdiff_t>(cpus.size() / ranks);
  for (auto first = cpus.begin(); cpus_.size() < ranks; first += each) cpus_.emplace_back(first, first + each);
}

void Placement::place(std::size_t rank, bool computes) const {
  if (cpus_.empty()) return;
  run_on(cpus_[rank]);
  if (!computes) hurry();
}

}  // namespace dovetail::exec

// SPDX-License-Identifier: Apache-2.0
#include "exec/host/placement.hpp"

#include <sched.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <thread>

using namespace dovetail::exec;

namespace {

// The CPUs of a thread once it is placed.
std::vector<int> cpus_of(const Placement& placement, std::size_t rank, bool computes) {
  std::vector<int> cpus;
  std::thread([&] {
    placement.place(rank, computes);
    cpus = free_cpus();
  }).join();
  return cpus;
}

}  // namespace

TEST_CASE("each rank has cores of its own, for all of its streams") {
  const std::size_t ranks = std::min<std::size_t>(free_cpus().size(), 3);
  const Placement placement(ranks);
  std::set<int> taken;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::vector<int> cpus = cpus_of(placement, rank, true);
    CHECK(cpus == cpus_of(placement, rank, false));
    CHECK(cpus.size() == free_cpus().size() / ranks);
    for (const int cpu : cpus) CHECK(taken.insert(cpu).second);
  }
}

TEST_CASE("more ranks than cores are left to the system") {
  const Placement placement(free_cpus().size() + 1);
  CHECK(!placement.own_cores());
  CHECK(cpus_of(placement, 0, false) == free_cpus());
}

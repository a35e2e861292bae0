// SPDX-License-Identifier: Apache-2.0
// Places the threads of ranks on cores. Each rank has cores of its own, so that ranks do not disturb each other.
// Threads that wait for links go before those that compute: so held ops end on time although their rank computes on the
// same core.
#pragma once
#include <cstddef>
#include <vector>

namespace dovetail::exec {

// CPUs that this process may use, as the system numbers them; at least one.
std::vector<int> free_cpus();

class Placement {
 public:
  // For so many ranks as threads of this process. With fewer free cores than ranks the system places all threads.
  explicit Placement(std::size_t ranks);

  bool own_cores() const { return !cpus_.empty(); }

  // Places the calling thread: a stream of the rank. The system may refuse, which leaves it as it was.
  void place(std::size_t rank, bool computes) const;

 private:
  std::vector<std::vector<int>> cpus_;  // by rank; empty: wherever the system likes
};

}  // namespace dovetail::exec

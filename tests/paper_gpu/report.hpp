// SPDX-License-Identifier: Apache-2.0
// The report on a program: counts, and its mistakes, written when it ends.
#pragma once
#include <cstdint>
#include <string>

namespace paper {

struct Counts {
  double seconds = 0;  // by the GPU's time
  std::int64_t device_bytes = 0, device_peak = 0, pinned_bytes = 0, pinned_peak = 0;
  long allocations = 0, refused = 0, streams = 0, events = 0, handles = 0, synchronizations = 0, copies = 0,
       not_copied = 0, products = 0, misaligned = 0, graphs = 0, largest_graph = 0, graph_launches = 0;
  double flops = 0;
};

Counts& counts();
void count_kernel(const std::string& name);

// Notes a mistake. Ends the program with exit code 99 where PAPER_STRICT=1.
void problem(const std::string& what);

}  // namespace paper

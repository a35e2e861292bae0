// SPDX-License-Identifier: Apache-2.0
#include "tests/paper_gpu/report.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>

#include "tests/paper_gpu/settings.hpp"

namespace paper {
namespace {

constexpr std::size_t most_problems = 50;  // that are told apart

struct Report {
  Counts counts;
  std::map<std::string, long> kernels, problems;
};

std::string program_name() {
  std::string name;
  std::getline(std::ifstream("/proc/self/comm"), name);
  return name;
}

void write(std::FILE* to, const Report& report) {
  const Counts& c = report.counts;
  std::fprintf(to, "paper GPU: %s, %.3f s of its time\n", program_name().c_str(), c.seconds);
  std::fprintf(to, "  %ld allocations (%ld refused), at most %.3f GB of the device and %.3f GB pinned\n", c.allocations,
               c.refused, 1e-9 * static_cast<double>(c.device_peak), 1e-9 * static_cast<double>(c.pinned_peak));
  std::fprintf(to, "  %ld streams, %ld events, %ld synchronizations, %ld cuBLAS handles\n", c.streams, c.events,
               c.synchronizations, c.handles);
  std::fprintf(to, "  %ld copies and fills (%ld too large to be made), %ld products of %.4g TFLOP in all", c.copies,
               c.not_copied, c.products, 1e-12 * c.flops);
  std::fprintf(to, " (%ld in bf16 not aligned for tensor cores)\n", c.misaligned);
  std::fprintf(to, "  %ld graphs, the largest of %ld nodes, %ld launches of graphs\n", c.graphs, c.largest_graph,
               c.graph_launches);
  if (settings().list_kernels)
    for (const auto& [name, count] : report.kernels) std::fprintf(to, "  kernel x %ld: %s\n", count, name.c_str());
  for (const auto& [what, count] : report.problems) std::fprintf(to, "  PROBLEM x %ld: %s\n", count, what.c_str());
}

Report& report();

void write_at_exit() {
  const std::string& path = settings().report;
  std::FILE* const file = path.empty() ? stderr : std::fopen(path.c_str(), "a");
  if (file == nullptr) return;
  write(file, report());
  if (!path.empty()) std::fclose(file);
}

// Never destroyed: programs free memory while they end.
Report& report() {
  static Report* const own = [] {
    std::atexit(write_at_exit);
    return new Report;
  }();
  return *own;
}

}  // namespace

Counts& counts() {
  return report().counts;
}

void count_kernel(const std::string& name) {
  ++report().kernels[name];
}

void problem(const std::string& what) {
  auto& all = report().problems;
  ++all[all.size() < most_problems || all.contains(what) ? what : "others"];
  if (!settings().strict) return;
  std::fprintf(stderr, "paper GPU: PROBLEM: %s\n", what.c_str());
  write_at_exit();
  std::_Exit(99);
}

}  // namespace paper

// SPDX-License-Identifier: Apache-2.0
#include "tests/paper_gpu/settings.hpp"

#include <cstdlib>

namespace paper {
namespace {

double number(const char* name, double otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr && *text != '\0' ? std::atof(text) : otherwise;
}

Settings from_environment() {
  Settings s{};
  s.memory_bytes = 1e9 * number("PAPER_MEMORY", 79.6);
  s.flops_bf16 = 1e12 * number("PAPER_TFLOPS", 620);
  s.flops_fp32 = 1e12 * number("PAPER_TFLOPS_FP32", 45);
  s.flops_fp64 = 1e12 * number("PAPER_TFLOPS_FP64", 50);
  s.memory_bandwidth = 1e9 * number("PAPER_GBS", 2600);
  s.pcie_bandwidth = 1e9 * number("PAPER_PCIE", 45);
  s.exchange_bandwidth = 1e9 * number("PAPER_EXCHANGE", 45);
  s.beside = number("PAPER_BESIDE", .5);
  s.beside_memory = number("PAPER_BESIDE_MEMORY", 1);
  s.launch_seconds = 1e-6 * number("PAPER_LAUNCH", 2);
  s.graph_launch_seconds = 1e-6 * number("PAPER_GRAPH_LAUNCH", 8);
  s.kernel_seconds = 1e-6 * number("PAPER_KERNEL", 2.5);
  s.real_bytes = static_cast<std::int64_t>(number("PAPER_REAL", 16) * (1 << 20));
  s.strict = number("PAPER_STRICT", 0) != 0;
  s.list_kernels = number("PAPER_KERNELS", 0) != 0;
  if (const char* const report = std::getenv("PAPER_REPORT")) s.report = report;
  return s;
}

}  // namespace

const Settings& settings() {
  static const Settings* const all = new Settings(from_environment());  // kept for what runs at exit
  return *all;
}

}  // namespace paper

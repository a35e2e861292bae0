// SPDX-License-Identifier: Apache-2.0
// The physics of the paper GPU. The environment sets them (tests/README.md); the rest is as an H100 has it.
#pragma once
#include <cstdint>
#include <string>

namespace paper {

struct Settings {
  int multiprocessors = 132;
  std::int64_t shared_bytes_opt_in = 232448, shared_bytes = 49152;  // that a block may have

  double memory_bytes, flops_bf16, flops_fp32, flops_fp64;      // flop/s of products on all multiprocessors
  double memory_bandwidth, pcie_bandwidth, exchange_bandwidth;  // bytes/s; of exchanges by block
  double beside, beside_memory;                                 // speed that kernels keep beside an exchange
  double launch_seconds, graph_launch_seconds, kernel_seconds;  // of the host, of the host, the least on the GPU
  std::int64_t real_bytes;                                      // more than these are not really copied
  bool strict, list_kernels;
  std::string report;  // the file that reports are added to; empty: standard error
};

// As the environment had them at the first call.
const Settings& settings();

}  // namespace paper

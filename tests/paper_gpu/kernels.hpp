// SPDX-License-Identifier: Apache-2.0
// Kernels of the program: their names, and what a launch may ask for. All but the clock kernels compute nothing.
#pragma once
#include <cstdint>
#include <string>

#include "tests/paper_gpu/streams.hpp"

namespace paper {

struct Kernel {
  std::string name;                   // without namespaces and arguments: "run_rows<MoveRows<float> >"
  std::int64_t shared_bytes = 49152;  // that a launch may ask for
};

struct Blocks {
  unsigned x, y, z;
};

// `function`: the host's address that stands for the kernel.
void register_kernel(const void* function, const char* mangled_name);
// Null, and a problem: there is no such kernel.
Kernel* kernel_of(const void* function);
// False, and a problem: no block has so much.
bool allow_shared_bytes(Kernel& kernel, std::int64_t bytes);

// False, and a problem: against the limits of the GPU.
bool launch(const Kernel& kernel, Blocks grid, Blocks block, void** arguments, std::size_t shared_bytes,
            Stream& stream);

}  // namespace paper

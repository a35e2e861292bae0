// SPDX-License-Identifier: Apache-2.0
// Kernels whose bodies this project wrote (exec/device/launch.hpp): what their operands say of memory.
#pragma once
#include "tests/paper_gpu/engine.hpp"

namespace paper {

// The time and, for some, the accesses of a body's kernel for `count` rows or elements. `kernel`: its name with that of
// its body, "run_rows<MoveRows<float> >". Null where it is no such kernel.
std::unique_ptr<Work> body_work(const std::string& kernel, const void* body, std::int64_t count);

}  // namespace paper

// SPDX-License-Identifier: Apache-2.0
// Numbered pieces of work in forked processes: each has its own simulation engine, and one that crashes is reported.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

namespace dovetail::bench {

// Calls `work` for pieces 0 to count - 1, each once, in any of `workers` processes (1: in this one), and `done` here
// with what it returned, in the order of completion. An exception of `work` ends all: it comes out as an InternalError
// with its text, a worker that dies as a DeviceError. Workers end with this process, however it ends.
void for_each_piece(std::int64_t count, int workers, const std::function<std::string(std::int64_t)>& work,
                    const std::function<void(std::int64_t, std::string)>& done);

}  // namespace dovetail::bench

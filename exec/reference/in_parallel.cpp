// SPDX-License-Identifier: Apache-2.0
#include "exec/reference/in_parallel.hpp"

#include <algorithm>
#include <thread>
#include <vector>

namespace dovetail::exec {
namespace {

constexpr std::int64_t least_share = 1 << 18;  // of a thread: about ten times what it costs to start one

}  // namespace

void in_parallel(std::int64_t count, const std::function<void(std::int64_t first, std::int64_t last)>& body) {
  const std::int64_t threads =
      std::clamp<std::int64_t>(count / least_share, 1, std::max<std::int64_t>(1, std::thread::hardware_concurrency()));
  std::vector<std::jthread> others;
  for (std::int64_t i = 1; i < threads; ++i)
    others.emplace_back([&body, first = count * i / threads, last = count * (i + 1) / threads] { body(first, last); });
  body(0, count / threads);
}

}  // namespace dovetail::exec

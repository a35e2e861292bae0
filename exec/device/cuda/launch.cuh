// SPDX-License-Identifier: Apache-2.0
// How bodies become kernels. Included by .cu files alone, each of which instantiates launch_on_stream for its bodies.
#pragma once
#include <algorithm>

#include "exec/device/cuda/cuda_check.hpp"
#include "exec/device/launch.hpp"

namespace dovetail::exec {

// All 32 threads of a warp call these together.
struct WarpLanes {
  __device__ int index() const { return static_cast<int>(threadIdx.x & 31U); }
  __device__ int count() const { return 32; }
  __device__ void sync() const { __syncwarp(); }
  __device__ Alike alike(int key) const {
    const unsigned same = __match_any_sync(0xffffffffU, key);
    return {__popc(same & ((1U << index()) - 1)), __popc(same)};
  }
  template <class Number>
  __device__ Number before(Number x) const {
    Number sum = x;
    for (int apart = 1; apart < 32; apart *= 2) {
      const Number other = __shfl_up_sync(0xffffffffU, sum, apart);
      if (index() >= apart) sum += other;
    }
    return sum - x;
  }
  template <class Number>
  __device__ Number sum(Number x) const {
    for (int apart = 16; apart > 0; apart /= 2) x += __shfl_xor_sync(0xffffffffU, x, apart);
    return x;
  }
  template <class Number>
  __device__ Number max(Number x) const {
    for (int apart = 16; apart > 0; apart /= 2) {
      const Number other = __shfl_xor_sync(0xffffffffU, x, apart);
      x = other > x ? other : x;
    }
    return x;
  }
};

constexpr int threads_per_block = 256, rows_per_block = threads_per_block / 32;

template <class Body>
__global__ void __launch_bounds__(threads_per_block) run_elements(Body body, std::int64_t count) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) body(i);
}

// A warp for each row; all its lanes take the same way through the loop.
template <class Body>
__global__ void __launch_bounds__(threads_per_block) run_rows(Body body, std::int64_t count) {
  const std::int64_t step = std::int64_t{gridDim.x} * rows_per_block;
  for (std::int64_t i = std::int64_t{blockIdx.x} * rows_per_block + threadIdx.x / 32; i < count; i += step)
    body(i, WarpLanes());
}

template <class Body>
void launch_on_stream(void* stream, std::int64_t count, const Body& body) {
  constexpr std::int64_t most_blocks = 1 << 20;  // more work: each thread does several
  constexpr int per_block = per_row<Body> ? rows_per_block : threads_per_block;
  const auto blocks = static_cast<unsigned>(std::min(most_blocks, (count + per_block - 1) / per_block));
  const auto on = static_cast<cudaStream_t>(stream);
  if constexpr (per_row<Body>)
    run_rows<<<blocks, threads_per_block, 0, on>>>(body, count);
  else
    run_elements<<<blocks, threads_per_block, 0, on>>>(body, count);
  cuda_check(cudaGetLastError(), "kernel launch");
}

#define DOVETAIL_KERNEL(...) template void launch_on_stream<__VA_ARGS__>(void*, std::int64_t, const __VA_ARGS__&)

}  // namespace dovetail::exec

// SPDX-License-Identifier: Apache-2.0
#include "exec/device/cuda/cuda_check.hpp"
#include "exec/device/cuda/exchange.hpp"

namespace dovetail::exec {
namespace {

constexpr unsigned exchange_threads = 512;
constexpr int packs_in_flight = 8;  // 16-byte loads of each thread before its first store
constexpr std::int64_t pack_bytes = 16;
static_assert(exchange_threads * packs_in_flight * pack_bytes == largest_slice);

__device__ std::int64_t now() {
  std::int64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time)::"memory");
  return time;
}

__device__ void wait_until(std::int64_t end) {
  while (now() < end) __nanosleep(100);
}

__global__ void mark(std::int64_t* moment) {
  *moment = now();
}

__global__ void hold(Hold hold) {
  wait_until(deadline(hold, now()));
}

// By all threads of a block: at most a slice, in packs where both places are aligned for them.
__device__ void copy_slice(std::byte* to, const std::byte* from, std::int64_t bytes) {
  const auto places = reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from);
  const std::int64_t packs = places % pack_bytes == 0 ? bytes / pack_bytes : 0;
  const auto* const source = reinterpret_cast<const uint4*>(from);
  auto* const target = reinterpret_cast<uint4*>(to);
  uint4 loaded[packs_in_flight];
#pragma unroll
  for (int i = 0; i < packs_in_flight; ++i)
    if (const std::int64_t at = i * exchange_threads + threadIdx.x; at < packs) loaded[i] = source[at];
#pragma unroll
  for (int i = 0; i < packs_in_flight; ++i)
    if (const std::int64_t at = i * exchange_threads + threadIdx.x; at < packs) target[at] = loaded[i];
  for (std::int64_t at = packs * pack_bytes + threadIdx.x; at < bytes; at += exchange_threads) to[at] = from[at];
}

// A block copies its share in slices, each when its time has come.
__device__ void copy_share(const HeldExchange& e, std::int64_t begin, std::int64_t end) {
  Share share(e, blockIdx.x);
  for (Slice slice; share.next(slice);) {
    copy_slice(slice.to, slice.from, slice.bytes);
    if (threadIdx.x == 0) wait_until(due(begin, end, slice.done, share.bytes()));
    __syncthreads();
  }
}

__global__ void __launch_bounds__(exchange_threads, 1) exchange(HeldExchange e) {
  __shared__ std::int64_t begin, end;
  if (threadIdx.x == 0) {
    begin = now();
    end = deadline(e.hold, begin);
  }
  __syncthreads();
  copy_share(e, begin, end);
  __syncthreads();
  if (threadIdx.x != 0) return;
  wait_until(end);
  __threadfence();
  if (atomicAdd(e.done, 1) != static_cast<int>(gridDim.x) - 1) return;
  *e.done = 0;
  if (finish(e.hold, end, now()))
    atomicAdd(reinterpret_cast<unsigned long long*>(e.hold.moments + Hold::overruns), 1ULL);
}

}  // namespace

void launch_mark(void* stream, std::int64_t* moment) {
  mark<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(moment);
  cuda_check(cudaGetLastError(), "kernel launch");
}

void launch_hold(void* stream, const Hold& what) {
  hold<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(what);
  cuda_check(cudaGetLastError(), "kernel launch");
}

void launch_exchange(void* stream, const HeldExchange& what, std::size_t shared_bytes) {
  exchange<<<static_cast<unsigned>(what.blocks), exchange_threads, shared_bytes, static_cast<cudaStream_t>(stream)>>>(
      what);
  cuda_check(cudaGetLastError(), "kernel launch");
}

std::size_t reserve_shared_bytes() {
  int device = 0, most = 0;
  DOVETAIL_CUDA(cudaGetDevice(&device));
  DOVETAIL_CUDA(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  cudaFuncAttributes own{};
  DOVETAIL_CUDA(cudaFuncGetAttributes(&own, exchange));
  const auto bytes = most - static_cast<int>(own.sharedSizeBytes);
  DOVETAIL_CUDA(cudaFuncSetAttribute(exchange, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  return static_cast<std::size_t>(bytes);
}

}  // namespace dovetail::exec

#include "exec/device/cuda/cuda_check.hpp"
#include "exec/device/cuda/hold.hpp"

namespace dovetail::exec {
namespace {

__device__ std::int64_t now() {
  std::int64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time)::"memory");
  return time;
}

__global__ void mark(std::int64_t* moment) {
  *moment = now();
}

__global__ void hold(Hold hold) {
  const std::int64_t begin = now(), end = deadline(hold, begin);
  if (overruns(hold, end, begin)) atomicAdd(reinterpret_cast<unsigned long long*>(hold.moments + Hold::overruns), 1ULL);
  while (now() < end) __nanosleep(100);
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

}  // namespace dovetail::exec

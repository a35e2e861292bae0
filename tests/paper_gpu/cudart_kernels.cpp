// SPDX-License-Identifier: Apache-2.0
// The runtime's kernels: what nvcc's code calls when a program begins and at each launch.
#include <cstring>

#include "tests/paper_gpu/cudart.hpp"
#include "tests/paper_gpu/kernels.hpp"
#include "tests/paper_gpu/settings.hpp"

namespace {

// Between <<<...>>> and the launch.
struct Configuration {
  dim3 grid, block;
  std::size_t shared_bytes;
  cudaStream_t stream;
};
thread_local Configuration pushed;

cudaError_t launch_kernel(const paper::Kernel* kernel, dim3 grid, dim3 block, void** arguments,
                          std::size_t shared_bytes, cudaStream_t handle) {
  paper::Stream* const stream = paper::stream_of(handle);
  if (stream == nullptr) return paper::returned(cudaErrorInvalidResourceHandle);
  if (kernel == nullptr) return paper::returned(cudaErrorInvalidDeviceFunction);
  const bool fits =
      paper::launch(*kernel, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, arguments, shared_bytes, *stream);
  return paper::returned(fits ? cudaSuccess : cudaErrorInvalidConfiguration);
}

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) {
  return 1;
}

void __cudaRegisterFunction(void**, const char* function, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  paper::register_kernel(function, name);
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes, CUstream_st* stream) {
  pushed = {grid, block, shared_bytes, stream};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes, void* stream) {
  *grid = pushed.grid;
  *block = pushed.block;
  *shared_bytes = pushed.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = pushed.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  const paper::Call lock;
  *kernel = reinterpret_cast<cudaKernel_t>(paper::kernel_of(function));
  return paper::returned(*kernel == nullptr ? cudaErrorInvalidDeviceFunction : cudaSuccess);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared_bytes,
                               cudaStream_t stream) {
  const paper::Call lock;
  return launch_kernel(reinterpret_cast<const paper::Kernel*>(kernel), grid, block, arguments, shared_bytes, stream);
}

// Code of earlier compilers calls this one.
cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, std::size_t shared_bytes,
                             cudaStream_t stream) {
  const paper::Call lock;
  return launch_kernel(paper::kernel_of(function), grid, block, arguments, shared_bytes, stream);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  const paper::Call lock;
  if (paper::kernel_of(function) == nullptr) return paper::returned(cudaErrorInvalidDeviceFunction);
  std::memset(attributes, 0, sizeof *attributes);
  attributes->sharedSizeBytes = 16;  // of `exchange`, the one that asks
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  const paper::Call lock;
  paper::Kernel* const kernel = paper::kernel_of(function);
  if (kernel == nullptr) return paper::returned(cudaErrorInvalidDeviceFunction);
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  return paper::returned(paper::allow_shared_bytes(*kernel, value) ? cudaSuccess : cudaErrorInvalidValue);
}

}  // extern "C"

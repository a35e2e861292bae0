// SPDX-License-Identifier: Apache-2.0
// The runtime's memory: allocation, copies and fills.
#include "tests/paper_gpu/copies.hpp"
#include "tests/paper_gpu/cudart.hpp"
#include "tests/paper_gpu/memory.hpp"
#include "tests/paper_gpu/report.hpp"
#include "tests/paper_gpu/settings.hpp"

namespace {

cudaError_t allocate_for(void** first, std::size_t bytes, paper::Place place, const char* call) {
  const paper::Call lock;
  if (paper::illegal_in_capture(call)) return paper::returned(cudaErrorStreamCaptureUnsupported);
  *first = bytes == 0 ? nullptr : paper::allocate(static_cast<std::int64_t>(bytes), place);
  return paper::returned(*first == nullptr && bytes > 0 ? cudaErrorMemoryAllocation : cudaSuccess);
}

// Waits for all work, as the runtime does, so that nothing uses what is freed.
cudaError_t free_for(void* first, paper::Place place, const char* call) {
  if (first == nullptr) return cudaSuccess;
  const paper::Call lock;
  if (paper::illegal_in_capture(call)) return paper::returned(cudaErrorStreamCaptureUnsupported);
  paper::wait_for_all();
  if (paper::release(first, place)) return cudaSuccess;
  paper::problem(std::string(call) + " of memory that is not allocated");
  return paper::returned(cudaErrorInvalidValue);
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** first, std::size_t bytes) {
  return allocate_for(first, bytes, paper::Place::Device, "cudaMalloc");
}

cudaError_t cudaFree(void* first) {
  return free_for(first, paper::Place::Device, "cudaFree");
}

cudaError_t cudaMallocHost(void** first, std::size_t bytes) {
  return allocate_for(first, bytes, paper::Place::Pinned, "cudaMallocHost");
}

cudaError_t cudaFreeHost(void* first) {
  return free_for(first, paper::Place::Pinned, "cudaFreeHost");
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const paper::Call lock;
  *total = static_cast<std::size_t>(paper::settings().memory_bytes);
  *free = *total - static_cast<std::size_t>(paper::counts().device_bytes);
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  const paper::Call lock;
  if (paper::illegal_in_capture("cudaMemcpy")) return paper::returned(cudaErrorStreamCaptureUnsupported);
  paper::copy_now(to, from, static_cast<std::int64_t>(bytes));
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t handle) {
  const paper::Call lock;
  paper::Stream* const stream = paper::stream_of(handle);
  if (stream == nullptr) return paper::returned(cudaErrorInvalidResourceHandle);
  paper::copy(*stream, to, from, static_cast<std::int64_t>(bytes));
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* first, int byte, std::size_t bytes, cudaStream_t handle) {
  const paper::Call lock;
  paper::Stream* const stream = paper::stream_of(handle);
  if (stream == nullptr) return paper::returned(cudaErrorInvalidResourceHandle);
  paper::fill(*stream, first, byte, static_cast<std::int64_t>(bytes));
  return cudaSuccess;
}

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
// The runtime's questions about the device, and its errors.
#include <cuda_runtime_api.h>

#include <cstring>

#include "tests/paper_gpu/cudart.hpp"
#include "tests/paper_gpu/report.hpp"
#include "tests/paper_gpu/settings.hpp"

namespace {

thread_local cudaError_t last_error = cudaSuccess;

}  // namespace

namespace paper {

cudaError_t returned(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t returned(Verdict verdict) {
  switch (verdict) {
    case Verdict::Fine:
      return cudaSuccess;
    case Verdict::OfAnotherCapture:
      return returned(cudaErrorStreamCaptureIsolation);
    case Verdict::Unjoined:
      return returned(cudaErrorStreamCaptureUnjoined);
    case Verdict::Illegal:
      return returned(cudaErrorStreamCaptureInvalidated);
  }
  return returned(cudaErrorUnknown);
}

}  // namespace paper

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  return paper::returned(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() {
  return last_error;
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidValue:
      return "invalid argument";
    default:
      return "an error of the paper GPU";
  }
}

const char* cudaGetErrorName(cudaError_t error) {
  return cudaGetErrorString(error);
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device != 0) return paper::returned(cudaErrorInvalidDevice);
  std::memset(properties, 0, sizeof *properties);
  std::strcpy(properties->name, "Paper H100");
  properties->major = 9;
  properties->multiProcessorCount = paper::settings().multiprocessors;
  properties->l2CacheSize = 50 << 20;
  properties->totalGlobalMem = static_cast<std::size_t>(paper::settings().memory_bytes);
  properties->sharedMemPerBlock = static_cast<std::size_t>(paper::settings().shared_bytes);
  properties->sharedMemPerBlockOptin = static_cast<std::size_t>(paper::settings().shared_bytes_opt_in);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  const paper::Call call;
  switch (attribute) {
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(paper::settings().shared_bytes_opt_in);
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = paper::settings().multiprocessors;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      return cudaSuccess;
    default:
      paper::problem("attribute " + std::to_string(attribute) + ", which the paper GPU does not know");
      return paper::returned(cudaErrorInvalidValue);
  }
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  *lowest = 0;
  *highest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  constexpr const char* own = "00000000:01:00.0";
  if (device != 0 || length <= static_cast<int>(std::strlen(own))) return paper::returned(cudaErrorInvalidValue);
  std::strcpy(text, own);
  return cudaSuccess;
}

}  // extern "C"

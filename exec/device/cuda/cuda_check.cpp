// SPDX-License-Identifier: Apache-2.0
#include "exec/device/cuda/cuda_check.hpp"

#include <cstdlib>

#include "models/base/errors.hpp"

namespace dovetail::exec {

void cuda_check(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  cudaGetLastError();  // an error that is not sticky must not show up again at the next launch
  throw DeviceError(call, cudaGetErrorString(result), result);
}

void cublas_check(cublasStatus_t result, const char* call) {
  if (result != CUBLAS_STATUS_SUCCESS) throw DeviceError(call, cublasGetStatusString(result), result);
}

#if DOVETAIL_HAS_NCCL
void nccl_check(ncclResult_t result, const char* call) {
  if (result != ncclSuccess) throw DeviceError(call, ncclGetErrorString(result), result);
}
#endif

int cuda_devices() {
  setenv(connections_variable, "32", 0);
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

}  // namespace dovetail::exec

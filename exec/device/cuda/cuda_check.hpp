// SPDX-License-Identifier: Apache-2.0
// Every call of CUDA, cuBLAS and NCCL is checked: a failure is a DeviceError with the call, the library's text and
// code.
#pragma once
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "models/base/build_info.hpp"

#if DOVETAIL_HAS_NCCL
#include <nccl.h>
#endif

namespace dovetail::exec {

void cuda_check(cudaError_t result, const char* call);
void cublas_check(cublasStatus_t result, const char* call);
#if DOVETAIL_HAS_NCCL
void nccl_check(ncclResult_t result, const char* call);
#endif

// A call by its own name: DOVETAIL_CUDA(cudaMalloc(&p, n)).
#define DOVETAIL_CUDA(call) ::dovetail::exec::cuda_check((call), #call)
#define DOVETAIL_CUBLAS(call) ::dovetail::exec::cublas_check((call), #call)
#define DOVETAIL_NCCL(call) ::dovetail::exec::nccl_check((call), #call)

// Into how many hardware queues a process's streams go; 8 by default, which makes more streams wait for one another.
inline constexpr const char* connections_variable = "CUDA_DEVICE_MAX_CONNECTIONS";

// How many this machine has; 0 where there is no driver. Asks for 32 hardware queues unless the environment says how
// many: drivers read it when they begin.
int cuda_devices();

}  // namespace dovetail::exec

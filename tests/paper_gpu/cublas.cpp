// SPDX-License-Identifier: Apache-2.0
// cuBLAS: products of matrices, on the stream, multiprocessors and workspace of a handle.
#include <cublas_v2.h>

#include <unordered_set>

#include "tests/paper_gpu/memory.hpp"
#include "tests/paper_gpu/products.hpp"
#include "tests/paper_gpu/report.hpp"
#include "tests/paper_gpu/settings.hpp"
#include "tests/paper_gpu/workspaces.hpp"

namespace {

struct Handle {
  paper::Stream* stream = nullptr;  // null: the default stream
  const void* workspace = nullptr;  // null: one of cuBLAS's
  int multiprocessors = 0;
};

std::unordered_set<const void*>& live_handles() {
  static auto* const all = new std::unordered_set<const void*>;
  return *all;
}

Handle* handle_of(cublasHandle_t handle) {
  if (live_handles().contains(handle)) return reinterpret_cast<Handle*>(handle);
  paper::problem("a destroyed cuBLAS handle is used");
  return nullptr;
}

bool known(cudaDataType type) {
  return type == CUDA_R_16BF || type == CUDA_R_32F || type == CUDA_R_64F;
}

paper::Number number_of(cudaDataType type) {
  return type == CUDA_R_16BF ? paper::Number::Bf16 : type == CUDA_R_32F ? paper::Number::Float : paper::Number::Double;
}

bool goes_together(cudaDataType a, cudaDataType b, cudaDataType c, cublasComputeType_t compute) {
  const bool in_double = compute == CUBLAS_COMPUTE_64F;
  return known(a) && a == b && known(c) && (a == CUDA_R_64F) == in_double && (c == CUDA_R_64F) == in_double &&
         !(a == CUDA_R_32F && c == CUDA_R_16BF);
}

cublasStatus_t product(cublasHandle_t handle, paper::ProductCall call) {
  Handle* const own = handle_of(handle);
  if (own == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  paper::Stream* const stream = own->stream != nullptr ? own->stream : paper::stream_of(nullptr);
  if (stream->capture != nullptr && own->workspace == nullptr)
    paper::problem("a captured product without a workspace of the program's, so that cuBLAS allocates");
  call.multiprocessors = own->multiprocessors;
  if (!paper::multiply(call, *stream)) return CUBLAS_STATUS_INVALID_VALUE;
  const bool empty = call.m == 0 || call.n == 0 || call.batch == 0;
  if (own->workspace != nullptr && !empty) paper::use_workspace(own->workspace, *stream);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  const paper::Call lock;
  if (paper::illegal_in_capture("cublasCreate")) return CUBLAS_STATUS_ALLOC_FAILED;
  ++paper::counts().handles;
  *handle = reinterpret_cast<cublasHandle_t>(new Handle);
  live_handles().insert(*handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  const paper::Call lock;
  if (paper::illegal_in_capture("cublasDestroy")) return CUBLAS_STATUS_INTERNAL_ERROR;
  Handle* const own = handle_of(handle);
  if (own == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  live_handles().erase(handle);
  paper::wait_for_all();
  delete own;
  return CUBLAS_STATUS_SUCCESS;
}

// Takes the handle's workspace away, as cuBLAS does.
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  const paper::Call lock;
  Handle* const own = handle_of(handle);
  if (own == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  own->stream = paper::stream_of(stream);
  own->workspace = nullptr;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, std::size_t bytes) {
  const paper::Call lock;
  Handle* const own = handle_of(handle);
  if (own == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0) {
    paper::problem("cuBLAS: a workspace that does not begin at a multiple of 256 bytes");
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  paper::reachable(workspace, static_cast<std::int64_t>(bytes), "cuBLAS uses its workspace,");
  own->workspace = workspace;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetSmCountTarget(cublasHandle_t handle, int multiprocessors) {
  const paper::Call lock;
  Handle* const own = handle_of(handle);
  if (own == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (multiprocessors < 0 || multiprocessors > paper::settings().multiprocessors) {
    paper::problem("cuBLAS: products on " + std::to_string(multiprocessors) + " multiprocessors");
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  own->multiprocessors = multiprocessors;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetSmCountTarget(cublasHandle_t handle, int* multiprocessors) {
  const paper::Call lock;
  Handle* const own = handle_of(handle);
  if (own == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  *multiprocessors = own->multiprocessors;
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "an error of the paper GPU's cuBLAS";
}

cublasStatus_t cublasGemmStridedBatchedEx_64(cublasHandle_t handle, cublasOperation_t turn_a, cublasOperation_t turn_b,
                                             std::int64_t m, std::int64_t n, std::int64_t k, const void*, const void* a,
                                             cudaDataType type_a, std::int64_t leading_a, long long stride_a,
                                             const void* b, cudaDataType type_b, std::int64_t leading_b,
                                             long long stride_b, const void*, void* c, cudaDataType type_c,
                                             std::int64_t leading_c, long long stride_c, std::int64_t batch,
                                             cublasComputeType_t compute, cublasGemmAlgo_t) {
  const paper::Call lock;
  if (!goes_together(type_a, type_b, type_c, compute)) {
    paper::problem("cuBLAS: number formats that do not go together");
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return product(handle, {m,
                          n,
                          k,
                          batch,
                          {a, number_of(type_a), leading_a, stride_a, turn_a != CUBLAS_OP_N},
                          {b, number_of(type_b), leading_b, stride_b, turn_b != CUBLAS_OP_N},
                          {c, number_of(type_c), leading_c, stride_c, false},
                          0});
}

cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t turn_a, cublasOperation_t turn_b,
                               std::int64_t m, std::int64_t n, std::int64_t k, const void* alpha, const void* a,
                               cudaDataType type_a, std::int64_t leading_a, const void* b, cudaDataType type_b,
                               std::int64_t leading_b, const void* beta, void* c, cudaDataType type_c,
                               std::int64_t leading_c, cublasComputeType_t compute, cublasGemmAlgo_t algorithm) {
  return cublasGemmStridedBatchedEx_64(handle, turn_a, turn_b, m, n, k, alpha, a, type_a, leading_a, 0, b, type_b,
                                       leading_b, 0, beta, c, type_c, leading_c, 0, 1, compute, algorithm);
}

}  // extern "C"

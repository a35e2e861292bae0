// SPDX-License-Identifier: Apache-2.0
// The calls of a GPU that paper_mistakes makes, as short as they can be. Kernels are launched by name, as if nvcc had
// compiled them.
#pragma once
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <functional>
#include <utility>
#include <vector>

#include "exec/device/hold.hpp"

extern "C" void __cudaRegisterFunction(void**, const char* function, char*, const char* name, int, uint3*, uint3*,
                                       dim3*, dim3*, int*);

namespace paper::mistakes {

using dovetail::exec::HeldExchange;
using dovetail::exec::Hold;
using dovetail::exec::Piece;

inline char mark_kernel, hold_kernel, exchange_kernel, body_kernel, fill_kernel;  // their addresses stand for kernels

struct Gpu {
  cudaStream_t stream = new_stream(0), other = new_stream(-5);
  cublasHandle_t blas = nullptr;
  void* workspace = on_device(1 << 20);

  Gpu() {
    for (const auto& [kernel, name] :
         {std::pair{&mark_kernel, "mark"}, std::pair{&hold_kernel, "hold"}, std::pair{&exchange_kernel, "exchange"},
          std::pair{&body_kernel, "body"}, std::pair{&fill_kernel, "run_rows<FillSlots<Bf16> >"}})
      __cudaRegisterFunction(nullptr, kernel, nullptr, name, -1, nullptr, nullptr, nullptr, nullptr, nullptr);
    cublasCreate(&blas);
    give_blas(stream);
  }
  // Takes its workspace along.
  void give_blas(cudaStream_t to) const {
    cublasSetStream(blas, to);
    cublasSetWorkspace(blas, workspace, 1 << 20);
  }

  static cudaStream_t new_stream(int priority) {
    cudaStream_t made = nullptr;
    cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, priority);
    return made;
  }
  static cudaEvent_t new_event() {
    cudaEvent_t made = nullptr;
    cudaEventCreate(&made);
    return made;
  }
  static std::byte* on_device(std::size_t bytes) {
    void* made = nullptr;
    return cudaMalloc(&made, bytes) == cudaSuccess ? static_cast<std::byte*>(made) : nullptr;
  }
  static std::byte* pinned(std::size_t bytes) {
    void* made = nullptr;
    cudaMallocHost(&made, bytes);
    return static_cast<std::byte*>(made);
  }
  template <class Argument>
  void launch(const char& kernel, Argument argument, cudaStream_t on, dim3 grid = 1, dim3 block = 1,
              std::size_t shared = 0) const {
    void* arguments[] = {&argument};
    cudaLaunchKernel(&kernel, grid, block, arguments, shared, on);
  }
  // Square matrices of bf16, the third of which becomes the product.
  void multiply(int size, std::byte* matrices, int leading) const {
    const float one = 1, zero = 0;
    const std::int64_t bytes = std::int64_t{size} * size * 2;
    cublasGemmEx_64(blas, CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &one, matrices, CUDA_R_16BF, leading,
                    matrices + bytes, CUDA_R_16BF, leading, &zero, matrices + 2 * bytes, CUDA_R_16BF, leading,
                    CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  }
  // In a capture of `stream`, to its end.
  void captured(const std::function<void()>& work) const {
    cudaGraph_t graph = nullptr;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    work();
    if (cudaStreamEndCapture(stream, &graph) != cudaSuccess) return;
    cudaGraphExec_t runnable = nullptr;
    cudaGraphInstantiate(&runnable, graph, 0);
    cudaGraphLaunch(runnable, stream);
    cudaDeviceSynchronize();
    cudaGraphExecDestroy(runnable);
    cudaGraphDestroy(graph);
  }
};

// An exchange of its own memory that is due so many ns after it begins.
struct ExchangeMemory {
  HeldExchange exchange;
  ExchangeMemory(const Gpu& gpu, std::int64_t bytes, std::int64_t there, std::int64_t until) {
    const Piece piece{gpu.on_device(static_cast<std::size_t>(there)), gpu.on_device(static_cast<std::size_t>(bytes)),
                      bytes};
    std::byte* const memory = gpu.on_device(1024);
    const std::int64_t far = std::int64_t{1} << 62;
    const std::vector<std::byte> zeros(1024);
    cudaMemcpy(memory, zeros.data(), zeros.size(), cudaMemcpyDefault);
    cudaMemcpy(memory, &far, sizeof far, cudaMemcpyDefault);
    cudaMemcpy(memory + 512, &piece, sizeof piece, cudaMemcpyDefault);
    exchange.hold.moments = reinterpret_cast<std::int64_t*>(memory);
    exchange.hold.until = until;
    exchange.pieces = reinterpret_cast<const Piece*>(memory + 512);
    exchange.count = 1;
    exchange.bytes = bytes;
    exchange.done = reinterpret_cast<std::int32_t*>(memory + 256);
    exchange.blocks = 16;
  }
};

}  // namespace paper::mistakes

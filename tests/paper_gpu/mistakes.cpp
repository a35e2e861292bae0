// Makes one mistake on a GPU, that of its argument, or none, or measures what the paper GPU's physics do. Kernels are
// launched by name, as if nvcc had compiled them. Prints times in us.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "exec/device/hold.hpp"
#include "exec/device/order_bodies.hpp"

extern "C" void __cudaRegisterFunction(void**, const char* function, char*, const char* name, int, uint3*, uint3*,
                                       dim3*, dim3*, int*);

namespace {

using dovetail::exec::HeldExchange;
using dovetail::exec::Hold;
using dovetail::exec::Piece;

char mark_kernel, hold_kernel, exchange_kernel, body_kernel, fill_kernel;  // their addresses stand for kernels

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

void exchange(const Gpu& gpu, const HeldExchange& what, cudaStream_t on) {
  gpu.launch(exchange_kernel, what, on, static_cast<unsigned>(what.blocks), 512);
}

double microseconds(cudaEvent_t first, cudaEvent_t last) {
  float milliseconds = -1;
  cudaDeviceSynchronize();
  cudaEventElapsedTime(&milliseconds, first, last);
  return 1e3 * static_cast<double>(milliseconds);
}

// A product, alone or beside an exchange that is as long as many of them.
double product_time(Gpu& gpu, int multiprocessors, bool beside) {
  constexpr int size = 8192;
  static std::byte* const matrices = Gpu::on_device(std::size_t{3} * size * size * 2);
  const cudaEvent_t begin = Gpu::new_event(), end = Gpu::new_event();
  const ExchangeMemory memory(gpu, 4096, 4096, 100'000'000);
  cublasSetSmCountTarget(gpu.blas, multiprocessors);
  if (beside) exchange(gpu, memory.exchange, gpu.other);
  gpu.launch(mark_kernel, memory.exchange.hold.moments, gpu.stream);
  cudaEventRecord(begin, gpu.stream);
  gpu.multiply(size, matrices, size);
  cudaEventRecord(end, gpu.stream);
  return microseconds(begin, end);
}

void physics(Gpu& gpu) {
  for (const int multiprocessors : {0, 116})
    for (const bool beside : {false, true})
      std::printf("product %d %s %.3f\n", multiprocessors, beside ? "beside" : "alone",
                  product_time(gpu, multiprocessors, beside));
}

// Nothing wrong: work of all kinds, in and out of captures.
void nothing(Gpu& gpu) {
  std::byte* const matrices = gpu.on_device(3 * 256 * 256 * 2);
  std::byte *const here = gpu.pinned(4096), *const there = gpu.on_device(4096), *const back = gpu.pinned(4096);
  std::memset(here, 7, 4096);
  const ExchangeMemory memory(gpu, 4096, 4096, 1'000'000);
  const cudaEvent_t fork = gpu.new_event(), join = gpu.new_event();
  const auto work = [&] {
    cudaEventRecord(fork, gpu.stream);
    cudaStreamWaitEvent(gpu.other, fork, 0);
    exchange(gpu, memory.exchange, gpu.other);
    cudaMemcpyAsync(there, here, 4096, cudaMemcpyDefault, gpu.other);
    cudaMemcpyAsync(back, there, 4096, cudaMemcpyDefault, gpu.other);
    cudaEventRecord(join, gpu.other);
    gpu.multiply(256, matrices, 256);
    cudaStreamWaitEvent(gpu.stream, join, 0);
    // The same workspace on another stream, but later.
    cudaEventRecord(fork, gpu.stream);
    cudaStreamWaitEvent(gpu.other, fork, 0);
    gpu.give_blas(gpu.other);
    gpu.multiply(256, matrices, 256);
    gpu.give_blas(gpu.stream);
    cudaEventRecord(join, gpu.other);
    cudaStreamWaitEvent(gpu.stream, join, 0);
  };
  gpu.captured(work);
  const bool arrived = back[4095] == std::byte{7};
  std::memset(here, 8, 4096);
  work();
  cudaDeviceSynchronize();
  std::puts(arrived && back[4095] == std::byte{8} ? "arrived" : "lost");
}

const std::map<std::string, void (*)(Gpu&)> mistakes{
    {"nothing", nothing},
    {"physics", physics},
    {"allocation in a capture", [](Gpu& gpu) { gpu.captured([&] { gpu.on_device(64); }); }},
    {"wait in a capture", [](Gpu& gpu) { gpu.captured([&] { cudaStreamSynchronize(gpu.other); }); }},
    {"copy in a capture",
     [](Gpu& gpu) { gpu.captured([&] { cudaMemcpy(gpu.workspace, gpu.workspace, 8, cudaMemcpyDefault); }); }},
    {"cuBLAS in a capture", [](Gpu& gpu) { gpu.captured([&] { cublasCreate(&gpu.blas); }); }},
    {"workspace",
     [](Gpu& gpu) {
       std::byte* const matrices = gpu.on_device(3 * 64 * 64 * 2);
       cublasSetStream(gpu.blas, gpu.stream);
       gpu.captured([&] { gpu.multiply(64, matrices, 64); });
     }},
    {"shared workspace",
     [](Gpu& gpu) {
       std::byte* const matrices = gpu.on_device(3 * 64 * 64 * 2);
       gpu.multiply(64, matrices, 64);
       gpu.give_blas(gpu.other);
       gpu.multiply(64, matrices, 64);
     }},
    {"shared workspace in a capture",
     [](Gpu& gpu) {
       std::byte* const matrices = gpu.on_device(3 * 64 * 64 * 2);
       const cudaEvent_t fork = gpu.new_event(), join = gpu.new_event();
       gpu.captured([&] {
         cudaEventRecord(fork, gpu.stream);
         gpu.multiply(64, matrices, 64);
         cudaStreamWaitEvent(gpu.other, fork, 0);
         gpu.give_blas(gpu.other);
         gpu.multiply(64, matrices, 64);
         cudaEventRecord(join, gpu.other);
         cudaStreamWaitEvent(gpu.stream, join, 0);
       });
     }},
    {"outside of a capture", [](Gpu& gpu) { gpu.captured([&] { cudaMemsetAsync(gpu.workspace, 0, 8, gpu.other); }); }},
    {"event of no capture",
     [](Gpu& gpu) {
       const cudaEvent_t event = gpu.new_event();
       cudaEventRecord(event, gpu.other);
       gpu.captured([&] { cudaStreamWaitEvent(gpu.stream, event, 0); });
     }},
    {"unjoined",
     [](Gpu& gpu) {
       const cudaEvent_t event = gpu.new_event();
       gpu.captured([&] {
         cudaEventRecord(event, gpu.stream);
         cudaStreamWaitEvent(gpu.other, event, 0);
         cudaMemsetAsync(gpu.workspace, 0, 8, gpu.other);
       });
     }},
    {"default stream", [](Gpu& gpu) { cudaMemsetAsync(gpu.workspace, 0, 8, nullptr); }},
    {"grid", [](Gpu& gpu) { gpu.launch(body_kernel, 0, gpu.stream, dim3(1, 65536)); }},
    {"block", [](Gpu& gpu) { gpu.launch(body_kernel, 0, gpu.stream, 1, 1025); }},
    {"shared memory", [](Gpu& gpu) { gpu.launch(body_kernel, 0, gpu.stream, 1, 1, 50000); }},
    {"too much shared memory",
     [](Gpu&) { cudaFuncSetAttribute(&body_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 232449); }},
    {"leading dimension", [](Gpu& gpu) { gpu.multiply(64, gpu.on_device(3 * 64 * 64 * 2), 63); }},
    {"short operand", [](Gpu& gpu) { gpu.multiply(64, gpu.on_device(3 * 64 * 64 * 2 - 2), 64); }},
    {"misaligned", [](Gpu& gpu) { gpu.multiply(63, gpu.on_device(3 * 63 * 63 * 2), 63); }},
    {"long copy",
     [](Gpu& gpu) { cudaMemcpyAsync(gpu.on_device(64), gpu.workspace, 65, cudaMemcpyDefault, gpu.stream); }},
    {"long fill", [](Gpu& gpu) { cudaMemsetAsync(gpu.on_device(64), 0, 80, gpu.stream); }},
    {"no memory", [](Gpu& gpu) { cudaMemsetAsync(gpu.on_device(64) - 8, 0, 8, gpu.stream); }},
    {"pageable memory",
     [](Gpu& gpu) {
       const std::vector<std::byte> values(64);
       cudaMemcpyAsync(gpu.on_device(64), values.data(), 64, cudaMemcpyDefault, gpu.stream);
     }},
    {"mark", [](Gpu& gpu) { gpu.launch(mark_kernel, reinterpret_cast<std::int64_t*>(gpu.on_device(4)), gpu.stream); }},
    {"rows past the end",
     [](Gpu& gpu) {
       dovetail::exec::FillSlots<dovetail::exec::Bf16> body{};
       body.shape.hidden = 32;
       body.chunk = reinterpret_cast<dovetail::exec::Bf16*>(gpu.on_device(3 * 64));
       std::int64_t rows = 4;
       void* arguments[] = {&body, &rows};
       cudaLaunchKernel(&fill_kernel, 1, 32, arguments, 0, gpu.stream);
     }},
    {"unrecorded event",
     [](Gpu& gpu) {
       float time = 0;
       cudaEventElapsedTime(&time, gpu.new_event(), gpu.new_event());
     }},
    {"unrecorded event, waited for", [](Gpu& gpu) { cudaStreamWaitEvent(gpu.stream, gpu.new_event(), 0); }},
    {"freed memory",
     [](Gpu& gpu) {
       std::byte* const memory = gpu.on_device(64);
       cudaFree(memory);
       cudaMemsetAsync(memory, 0, 8, gpu.stream);
     }},
    {"memory freed before its graph runs",
     [](Gpu& gpu) {
       std::byte* const memory = gpu.on_device(64);
       cudaGraph_t graph = nullptr;
       cudaGraphExec_t runnable = nullptr;
       cudaStreamBeginCapture(gpu.stream, cudaStreamCaptureModeThreadLocal);
       cudaMemsetAsync(memory, 0, 8, gpu.stream);
       cudaStreamEndCapture(gpu.stream, &graph);
       cudaGraphInstantiate(&runnable, graph, 0);
       cudaFree(memory);
       cudaGraphLaunch(runnable, gpu.stream);
       cudaDeviceSynchronize();
     }},
    {"freed twice",
     [](Gpu& gpu) {
       std::byte* const memory = gpu.on_device(64);
       cudaFree(memory);
       cudaFree(memory);
     }},
    {"long hold",
     [](Gpu& gpu) {
       const ExchangeMemory memory(gpu, 64, 64, 0);
       Hold hold = memory.exchange.hold;
       hold.until = 3'000'000'000;
       gpu.launch(hold_kernel, hold, gpu.stream);
       cudaDeviceSynchronize();
     }},
    {"long exchange",
     [](Gpu& gpu) {
       exchange(gpu, ExchangeMemory(gpu, 64, 64, 2'000'000'000).exchange, gpu.stream);
       cudaDeviceSynchronize();
     }},
    {"exchange past the end",
     [](Gpu& gpu) {
       exchange(gpu, ExchangeMemory(gpu, 4096, 4000, 1000).exchange, gpu.stream);
       cudaDeviceSynchronize();
     }},
    {"exchange of other pieces",
     [](Gpu& gpu) {
       HeldExchange what = ExchangeMemory(gpu, 4096, 4096, 1000).exchange;
       what.bytes = 4095;
       exchange(gpu, what, gpu.stream);
       cudaDeviceSynchronize();
     }},
    {"too large", [](Gpu& gpu) { std::puts(gpu.on_device(79'700'000'000) == nullptr ? "refused" : "given"); }},
    {"large", [](Gpu& gpu) { std::puts(gpu.on_device(79'500'000'000) == nullptr ? "refused" : "given"); }},
};

}  // namespace

int main(int count, char** arguments) {
  const auto found = mistakes.find(count > 1 ? arguments[1] : "");
  if (found == mistakes.end()) {
    for (const auto& [name, mistake] : mistakes) std::puts(name.c_str());
    return 2;
  }
  Gpu gpu;
  found->second(gpu);
  cudaDeviceSynchronize();
}

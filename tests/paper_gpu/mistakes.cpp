// SPDX-License-Identifier: Apache-2.0
// Makes one mistake on a GPU, that of its argument, or none, or measures what the paper GPU's physics do. Prints times
// in us.
#include "tests/paper_gpu/mistakes.hpp"

#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "exec/device/order_bodies.hpp"

namespace {

using namespace paper::mistakes;

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

// SPDX-License-Identifier: Apache-2.0
// The device that is a GPU: streams, events, cuBLAS, graphs.
#include <fmt/format.h>

#include <cstdlib>
#include <optional>

#include "exec/device/cuda/cuda_check.hpp"
#include "exec/device/cuda/exchange.hpp"
#include "exec/device/cuda/nvml_clock.hpp"
#include "exec/device/device.hpp"

namespace dovetail::exec {
namespace {

// The size that cuBLAS recommends for Hopper. We allocate it ourselves, because cuBLAS must not allocate while work is
// captured.
constexpr std::int64_t blas_workspace = 32 << 20;

class CudaMemory final : public Memory {
 public:
  CudaMemory(std::int64_t bytes, Place place) : place_(place) {
    bytes_ = bytes;
    if (bytes == 0) return;
    void* first = nullptr;
    if (place == Place::Device)
      DOVETAIL_CUDA(cudaMalloc(&first, static_cast<std::size_t>(bytes)));
    else
      DOVETAIL_CUDA(cudaMallocHost(&first, static_cast<std::size_t>(bytes)));
    data_ = static_cast<std::byte*>(first);
  }
  ~CudaMemory() override { place_ == Place::Device ? cudaFree(data_) : cudaFreeHost(data_); }
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

 private:
  Place place_;
};

class CudaEvent final : public Event {
 public:
  CudaEvent() { DOVETAIL_CUDA(cudaEventCreate(&event_)); }
  ~CudaEvent() override { cudaEventDestroy(event_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

cudaEvent_t native(const Event& event) {
  return dynamic_cast<const CudaEvent&>(event).get();
}

cudaDataType_t blas_type(Stored stored) {
  switch (stored) {
    case Stored::Double:
      return CUDA_R_64F;
    case Stored::Float:
      return CUDA_R_32F;
    case Stored::Bf16:
      return CUDA_R_16BF;
    case Stored::Fp8:
      break;
  }
  throw InternalError("matrices are not multiplied in fp8");
}

// One handle of cuBLAS for all queues of a device: each takes memory and time to make.
class CudaBlas {
 public:
  CudaBlas() { DOVETAIL_CUBLAS(cublasCreate(&handle_)); }
  ~CudaBlas() { cublasDestroy(handle_); }
  CudaBlas(const CudaBlas&) = delete;
  CudaBlas& operator=(const CudaBlas&) = delete;

  // For the next product. The stream comes first, because it takes the workspace away.
  cublasHandle_t on(cudaStream_t stream, const CudaMemory& workspace, int multiprocessors) const {
    DOVETAIL_CUBLAS(cublasSetStream(handle_, stream));
    DOVETAIL_CUBLAS(cublasSetWorkspace(handle_, workspace.data(), static_cast<std::size_t>(workspace.bytes())));
    DOVETAIL_CUBLAS(cublasSetSmCountTarget(handle_, multiprocessors));
    return handle_;
  }

 private:
  cublasHandle_t handle_ = nullptr;
};

class CudaQueue final : public Queue {
 public:
  CudaQueue(const CudaBlas& blas, Priority priority, int product_multiprocessors)
      : blas_(blas), product_multiprocessors_(product_multiprocessors) {
    int lowest = 0, highest = 0;
    DOVETAIL_CUDA(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
    DOVETAIL_CUDA(
        cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority == Priority::High ? highest : lowest));
  }
  ~CudaQueue() override { cudaStreamDestroy(stream_); }
  CudaQueue(const CudaQueue&) = delete;
  CudaQueue& operator=(const CudaQueue&) = delete;

  void copy(void* to, const void* from, std::int64_t bytes) override {
    if (bytes > 0)
      DOVETAIL_CUDA(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream_));
  }
  void fill(void* first, int byte, std::int64_t bytes) override {
    if (bytes > 0) DOVETAIL_CUDA(cudaMemsetAsync(first, byte, static_cast<std::size_t>(bytes), stream_));
  }
  void record(Event& event) override { DOVETAIL_CUDA(cudaEventRecord(native(event), stream_)); }
  void wait(const Event& event) override { DOVETAIL_CUDA(cudaStreamWaitEvent(stream_, native(event), 0)); }
  void* stream() const override { return stream_; }
  void loop(std::function<void()>) override { throw InternalError("a loop on the host, given to a GPU"); }
  cudaStream_t get() const { return stream_; }

  void multiply(const Product& p) override {
    const BlasCall c = blas_call(p);
    const auto flag = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
    const bool in_double = c.factors == Stored::Double;
    // Numbers of the format that sums are in.
    const double one = 1, beta = c.add ? 1 : 0;
    const float one_float = 1, beta_float = c.add ? 1 : 0;
    const void* const alpha = in_double ? static_cast<const void*>(&one) : &one_float;
    const void* const add = in_double ? static_cast<const void*>(&beta) : &beta_float;
    const cublasComputeType_t compute = in_double ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
    const cudaDataType_t factors = blas_type(c.factors), result = blas_type(c.result);
    if (c.batch == 1)
      DOVETAIL_CUBLAS(cublasGemmEx_64(blas(), flag(c.transpose_a), flag(c.transpose_b), c.m, c.n, c.k, alpha, c.a,
                                      factors, c.lda, c.b, factors, c.ldb, add, c.c, result, c.ldc, compute,
                                      CUBLAS_GEMM_DEFAULT));
    else
      DOVETAIL_CUBLAS(cublasGemmStridedBatchedEx_64(
          blas(), flag(c.transpose_a), flag(c.transpose_b), c.m, c.n, c.k, alpha, c.a, factors, c.lda, c.stride_a, c.b,
          factors, c.ldb, c.stride_b, add, c.c, result, c.ldc, c.stride_c, c.batch, compute, CUBLAS_GEMM_DEFAULT));
  }

 private:
  cublasHandle_t blas() {
    if (workspace_ == nullptr) workspace_ = std::make_unique<CudaMemory>(blas_workspace, Place::Device);
    return blas_.on(stream_, *workspace_, product_multiprocessors_);
  }

  const CudaBlas& blas_;
  int product_multiprocessors_;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<CudaMemory> workspace_;  // made by the first product
};

cudaStream_t native(Queue& queue) {
  return dynamic_cast<CudaQueue&>(queue).get();
}

class CudaGraph final : public Graph {
 public:
  // Nodes keep the priorities of the streams that they were captured from. Uploaded by way of the stream, so that the
  // first launch is as quick as all others.
  CudaGraph(cudaGraph_t graph, cudaStream_t stream) : graph_(graph) {
    DOVETAIL_CUDA(cudaGraphInstantiate(&runnable_, graph_, cudaGraphInstantiateFlagUseNodePriority));
    DOVETAIL_CUDA(cudaGraphUpload(runnable_, stream));
  }
  ~CudaGraph() override {
    cudaGraphExecDestroy(runnable_);
    cudaGraphDestroy(graph_);
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  void launch(Queue& queue) override { DOVETAIL_CUDA(cudaGraphLaunch(runnable_, native(queue))); }

 private:
  cudaGraph_t graph_;
  cudaGraphExec_t runnable_ = nullptr;
};

class CudaDevice final : public ComputeDevice {
 public:
  explicit CudaDevice(int number) : number_(number), clock_(number) {
    use();
    DOVETAIL_CUDA(cudaGetDeviceProperties(&properties_, number));
    shared_bytes_ = reserve_shared_bytes();
    blas_.emplace();
  }

  std::string description() const override {
    int driver = 0, runtime = 0;
    DOVETAIL_CUDA(cudaDriverGetVersion(&driver));
    DOVETAIL_CUDA(cudaRuntimeGetVersion(&runtime));
    return fmt::format(
        "{}, compute capability {}.{}, {} multiprocessors, driver {} for CUDA {}.{}, CUDA {}.{}, cuBLAS {}, {}={}",
        properties_.name, properties_.major, properties_.minor, properties_.multiProcessorCount,
        clock_.driver().empty() ? "(unknown)" : clock_.driver(), driver / 1000, driver % 1000 / 10, runtime / 1000,
        runtime % 1000 / 10, CUBLAS_VERSION, connections_variable, std::getenv(connections_variable));
  }

  std::int64_t cache_bytes() const override { return properties_.l2CacheSize; }
  int multiprocessors() const override { return properties_.multiProcessorCount; }
  ClockReading clock() const override { return clock_.now(); }

  std::unique_ptr<Memory> allocate(std::int64_t bytes, Place place) override {
    return std::make_unique<CudaMemory>(bytes, place);
  }
  using ComputeDevice::make_queue;
  std::unique_ptr<Queue> make_queue(Priority priority, int product_multiprocessors) override {
    require("products", product_multiprocessors, 0);
    return std::make_unique<CudaQueue>(*blas_, priority, product_multiprocessors);
  }
  std::unique_ptr<Event> make_event() override { return std::make_unique<CudaEvent>(); }

  void use() override { DOVETAIL_CUDA(cudaSetDevice(number_)); }
  bool reached(const Event& event) const override {
    const cudaError_t state = cudaEventQuery(native(event));
    if (state == cudaErrorNotReady)
      cudaGetLastError();  // where the next launch would find it
    else
      cuda_check(state, "cudaEventQuery");
    return state == cudaSuccess;
  }

  void synchronize() override { DOVETAIL_CUDA(cudaDeviceSynchronize()); }
  void synchronize(Queue& queue) override { DOVETAIL_CUDA(cudaStreamSynchronize(native(queue))); }
  void copy_now(void* to, const void* from, std::int64_t bytes) override {
    if (bytes == 0) return;
    synchronize();  // our streams do not wait for the default stream, nor it for them
    DOVETAIL_CUDA(cudaMemcpy(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault));
    synchronize();  // from pageable memory the call may return while the last bytes are on their way
  }
  Seconds elapsed(const Event& first, const Event& last) override {
    float milliseconds = 0;
    DOVETAIL_CUDA(cudaEventElapsedTime(&milliseconds, native(first), native(last)));
    return Seconds(1e-3 * static_cast<double>(milliseconds));
  }

  std::unique_ptr<Graph> capture(Queue& origin, const std::function<void()>& issue) override {
    DOVETAIL_CUDA(cudaStreamBeginCapture(native(origin), cudaStreamCaptureModeThreadLocal));
    cudaGraph_t graph = nullptr;
    try {
      issue();
    } catch (...) {
      cudaStreamEndCapture(native(origin), &graph);
      if (graph != nullptr) cudaGraphDestroy(graph);
      cudaGetLastError();  // a refused capture must not show up again at the next launch
      throw;
    }
    DOVETAIL_CUDA(cudaStreamEndCapture(native(origin), &graph));
    return std::make_unique<CudaGraph>(graph, native(origin));
  }

  void mark(Queue& queue, std::int64_t* moment) override { launch_mark(native(queue), moment); }
  using ComputeDevice::hold;
  void hold(Queue& queue, const Hold& hold) override { launch_hold(native(queue), hold); }
  void exchange(Queue& queue, const HeldExchange& exchange) override {
    require("an exchange", exchange.blocks, 1);
    launch_exchange(native(queue), exchange, shared_bytes_);
  }

 private:
  void require(const char* what, int multiprocessors, int least) const {
    if (multiprocessors < least || multiprocessors > properties_.multiProcessorCount)
      throw DeviceError(what, fmt::format("on {} multiprocessors; this GPU has {}", multiprocessors,
                                          properties_.multiProcessorCount));
  }

  int number_;
  cudaDeviceProp properties_{};
  std::optional<CudaBlas> blas_;  // made once the device is in use
  NvmlClock clock_;
  std::size_t shared_bytes_ = 0;  // see launch_exchange
};

}  // namespace

std::unique_ptr<ComputeDevice> make_cuda_device(int number) {
  if (cuda_devices() <= number)
    throw DeviceError("cudaGetDeviceCount",
                      fmt::format("no CUDA device {}: this machine has {}", number, cuda_devices()));
  return std::make_unique<CudaDevice>(number);
}

}  // namespace dovetail::exec

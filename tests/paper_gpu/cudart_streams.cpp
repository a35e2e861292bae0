// SPDX-License-Identifier: Apache-2.0
// The runtime's streams, events and graphs.

#include <utility>

#include "tests/paper_gpu/cudart.hpp"
#include "tests/paper_gpu/report.hpp"

namespace {

using GraphPtr = std::shared_ptr<paper::Graph>;

// A cudaGraph_t or cudaGraphExec_t stands for one.
struct GraphHandle {
  GraphPtr graph;
};

GraphHandle* graph_of(const void* handle) {
  return static_cast<GraphHandle*>(const_cast<void*>(handle));
}

cudaError_t invalid_handle() {
  return paper::returned(cudaErrorInvalidResourceHandle);
}

}  // namespace

extern "C" {

cudaError_t cudaDeviceSynchronize() {
  const paper::Call lock;
  ++paper::counts().synchronizations;
  if (paper::illegal_in_capture("cudaDeviceSynchronize")) return paper::returned(cudaErrorStreamCaptureUnsupported);
  paper::wait_for_all();
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  const paper::Call lock;
  ++paper::counts().synchronizations;
  if (paper::illegal_in_capture("cudaStreamSynchronize")) return paper::returned(cudaErrorStreamCaptureUnsupported);
  const paper::Stream* const stream = paper::stream_of(handle);
  if (stream == nullptr) return invalid_handle();
  paper::wait_for(stream->last);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* handle, unsigned flags, int priority) {
  const paper::Call lock;
  if (flags != cudaStreamNonBlocking) paper::problem("a stream that waits for the default stream");
  if (priority > 0 || priority < -5) paper::problem("a stream of priority " + std::to_string(priority));
  *handle = reinterpret_cast<cudaStream_t>(paper::make_stream(priority));
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned flags) {
  return cudaStreamCreateWithPriority(handle, flags, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  const paper::Call lock;
  paper::Stream* const stream = paper::stream_of(handle);
  if (stream == nullptr || handle == nullptr) return invalid_handle();
  paper::end_stream(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned) {
  const paper::Call lock;
  paper::Stream* const stream = paper::stream_of(handle);
  const paper::Event* const event = paper::event_of(event_handle);
  if (stream == nullptr || event == nullptr) return invalid_handle();
  return paper::returned(paper::wait(*stream, *event));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned) {
  const paper::Call lock;
  *handle = reinterpret_cast<cudaEvent_t>(paper::make_event());
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* handle) {
  return cudaEventCreateWithFlags(handle, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  const paper::Call lock;
  paper::Event* const event = paper::event_of(handle);
  if (event == nullptr) return invalid_handle();
  paper::end_event(event);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  const paper::Call lock;
  paper::Stream* const stream = paper::stream_of(stream_handle);
  paper::Event* const event = paper::event_of(handle);
  if (stream == nullptr || event == nullptr) return invalid_handle();
  paper::record(*stream, *event);
  return cudaSuccess;
}

// Not yet, where nobody has waited for it. Programs ask again and again: the second answer is that it was reached,
// after as long as that takes.
cudaError_t cudaEventQuery(cudaEvent_t handle) {
  const paper::Call lock;
  paper::Event* const event = paper::event_of(handle);
  if (event == nullptr) return invalid_handle();
  const bool before = std::exchange(event->asked, true);
  if (!before && event->recorded != nullptr && !paper::finished(event->recorded)) return cudaErrorNotReady;
  return paper::returned(paper::reach(*event));
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  const paper::Call lock;
  ++paper::counts().synchronizations;
  if (paper::illegal_in_capture("cudaEventSynchronize")) return paper::returned(cudaErrorStreamCaptureUnsupported);
  const paper::Event* const event = paper::event_of(handle);
  return event == nullptr ? invalid_handle() : paper::returned(paper::reach(*event));
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t first, cudaEvent_t last) {
  const paper::Call lock;
  const paper::Event *const from = paper::event_of(first), *const to = paper::event_of(last);
  if (from == nullptr || to == nullptr) return invalid_handle();
  if (from->recorded == nullptr || to->recorded == nullptr) {
    paper::problem("the time of an event that was never recorded");
    return invalid_handle();
  }
  if (!paper::finished(from->recorded) || !paper::finished(to->recorded)) return paper::returned(cudaErrorNotReady);
  *milliseconds = static_cast<float>(1e3 * (to->recorded->finished - from->recorded->finished));
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
  const paper::Call lock;
  paper::Stream* const stream = paper::stream_of(handle);
  return stream == nullptr ? invalid_handle() : paper::returned(paper::begin_capture(*stream));
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  const paper::Call lock;
  paper::Stream* const stream = paper::stream_of(handle);
  if (stream == nullptr) return invalid_handle();
  GraphPtr captured;
  const paper::Verdict verdict = paper::end_capture(*stream, captured);
  *graph = captured == nullptr ? nullptr : reinterpret_cast<cudaGraph_t>(new GraphHandle{captured});
  return paper::returned(verdict);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* runnable, cudaGraph_t graph, unsigned long long) {
  const paper::Call lock;
  if (paper::illegal_in_capture("cudaGraphInstantiate")) return paper::returned(cudaErrorStreamCaptureUnsupported);
  *runnable = reinterpret_cast<cudaGraphExec_t>(new GraphHandle{graph_of(graph)->graph});
  return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  const paper::Call lock;
  paper::illegal_in_capture("cudaGraphUpload");
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t runnable, cudaStream_t handle) {
  const paper::Call lock;
  paper::Stream* const stream = paper::stream_of(handle);
  if (stream == nullptr) return invalid_handle();
  if (paper::illegal_in_capture("cudaGraphLaunch")) return paper::returned(cudaErrorStreamCaptureUnsupported);
  stream->last = paper::give(*graph_of(runnable)->graph, stream->last);
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t runnable) {
  const paper::Call lock;
  delete graph_of(runnable);
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const paper::Call lock;
  delete graph_of(graph);
  return cudaSuccess;
}

}  // extern "C"

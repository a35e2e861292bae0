// SPDX-License-Identifier: Apache-2.0
#include "tests/paper_gpu/streams.hpp"

#include <algorithm>
#include <mutex>
#include <unordered_set>

#include "tests/paper_gpu/report.hpp"

namespace paper {
namespace {

struct Handles {
  std::mutex mutex;
  std::unordered_set<const void*> live;
  std::vector<std::unique_ptr<Capture>> captures;
  long captures_begun = 0;
  Stream default_stream;
};

Handles& handles() {
  static auto* const all = new Handles;
  return *all;
}

Capture* own_capture() {
  for (const auto& capture : handles().captures)
    if (capture->by == std::this_thread::get_id()) return capture.get();
  return nullptr;
}

const Capture* capture_numbered(long number) {
  for (const auto& capture : handles().captures)
    if (capture->number == number) return capture.get();
  return nullptr;
}

void join(std::vector<int>& nodes, const std::vector<int>& others) {
  for (const int node : others)
    if (std::ranges::find(nodes, node) == nodes.end()) nodes.push_back(node);
}

// Whether all nodes of a graph come before the work that would follow `last`.
bool all_come_before(const Graph& graph, std::vector<int> last) {
  std::vector<bool> before(graph.nodes.size());
  std::size_t count = 0;
  while (!last.empty()) {
    const auto node = static_cast<std::size_t>(last.back());
    last.pop_back();
    if (before[node]) continue;
    before[node] = true;
    ++count;
    last.insert(last.end(), graph.nodes[node].after.begin(), graph.nodes[node].after.end());
  }
  return count == graph.nodes.size();
}

void leave_capture(Capture& capture) {
  for (Stream* const stream : capture.streams) {
    stream->capture = nullptr;
    stream->captured_after.clear();
  }
  std::erase_if(handles().captures, [&](const auto& each) { return each.get() == &capture; });
}

}  // namespace

Call::Call() {
  handles().mutex.lock();
}
Call::~Call() {
  handles().mutex.unlock();
}

Stream* make_stream(int priority) {
  ++counts().streams;
  auto* const stream = new Stream;
  stream->priority = priority;
  handles().live.insert(stream);
  return stream;
}

void end_stream(Stream* stream) {
  if (stream->capture != nullptr) {
    problem("a stream is destroyed in a capture");
    stream->capture->streams.erase(stream);
  }
  handles().live.erase(stream);
  delete stream;  // its work goes on
}

Event* make_event() {
  ++counts().events;
  auto* const event = new Event;
  handles().live.insert(event);
  return event;
}

void end_event(Event* event) {
  handles().live.erase(event);
  delete event;
}

Stream* stream_of(const void* handle) {
  if (reinterpret_cast<std::uintptr_t>(handle) <= 2) {  // the default stream, cudaStreamLegacy, cudaStreamPerThread
    problem("use of the default stream, which waits for all others");
    return &handles().default_stream;
  }
  if (handles().live.contains(handle)) return static_cast<Stream*>(const_cast<void*>(handle));
  problem("a destroyed stream is used");
  return nullptr;
}

Event* event_of(const void* handle) {
  if (handles().live.contains(handle)) return static_cast<Event*>(const_cast<void*>(handle));
  problem("a destroyed event is used");
  return nullptr;
}

void enqueue(Stream& stream, WorkPtr work) {
  if (stream.capture == nullptr) {
    if (own_capture() != nullptr) problem("work on a stream outside of the capture that goes on: " + work->name);
    stream.last = give(std::move(work), stream.priority, stream.last);
    return;
  }
  auto& nodes = stream.capture->graph->nodes;
  nodes.push_back({std::move(work), stream.priority, stream.captured_after});
  stream.captured_after = {static_cast<int>(nodes.size()) - 1};
}

void record(Stream& stream, Event& event) {
  event.captured = 0;
  event.asked = false;
  if (stream.capture != nullptr) {
    event.captured = stream.capture->number;
    event.after = stream.captured_after;
    return;
  }
  if (own_capture() != nullptr) problem("an event is recorded on a stream outside of the capture that goes on");
  stream.last = event.recorded = give(nullptr, stream.priority, stream.last);
}

Verdict wait(Stream& stream, const Event& event) {
  const Capture* const of_event = capture_numbered(event.captured);
  if (of_event != nullptr && (stream.capture == nullptr || stream.capture == of_event)) {
    stream.capture = const_cast<Capture*>(of_event);
    stream.capture->streams.insert(&stream);
    join(stream.captured_after, event.after);
    return Verdict::Fine;
  }
  if (stream.capture != nullptr || event.captured != 0) {
    problem(stream.capture == nullptr ? "a stream waits for an event of a capture that has ended"
            : of_event != nullptr     ? "a captured stream waits for an event of another capture"
                                      : "a captured stream waits for an event of no capture");
    if (stream.capture != nullptr) stream.capture->broken = true;
    return Verdict::OfAnotherCapture;
  }
  if (own_capture() != nullptr) problem("a stream outside of the capture that goes on is told to wait");
  if (event.recorded == nullptr)
    problem("a stream waits for an event that was never recorded");
  else
    stream.last = give(nullptr, stream.priority, stream.last, event.recorded);
  return Verdict::Fine;
}

Verdict reach(const Event& event) {
  if (event.captured != 0) {
    problem("the host asks for an event that was recorded in a capture");
    return Verdict::Illegal;
  }
  if (event.recorded == nullptr)
    problem("the host asks for an event that was never recorded");
  else
    wait_for(event.recorded);
  return Verdict::Fine;
}

bool illegal_in_capture(const char* call) {
  Capture* const capture = own_capture();
  if (capture == nullptr) return false;
  problem(std::string(call) + " in a capture");
  capture->broken = true;
  return true;
}

Verdict begin_capture(Stream& stream) {
  if (stream.capture != nullptr || own_capture() != nullptr) {
    problem("a capture begins in another one");
    return Verdict::Illegal;
  }
  auto capture = std::make_unique<Capture>();
  capture->number = ++handles().captures_begun;
  capture->by = std::this_thread::get_id();
  capture->origin = &stream;
  capture->streams = {&stream};
  stream.capture = capture.get();
  handles().captures.push_back(std::move(capture));
  return Verdict::Fine;
}

Verdict end_capture(Stream& stream, std::shared_ptr<Graph>& graph) {
  Capture* const capture = stream.capture;
  if (capture == nullptr || capture->origin != &stream || capture->by != std::this_thread::get_id()) {
    problem("a capture ends on a stream or thread on which it did not begin");
    return Verdict::Illegal;
  }
  const bool broken = capture->broken, joined = all_come_before(*capture->graph, stream.captured_after);
  if (!broken && !joined) problem("a capture ends before all its streams have joined again");
  if (!broken && joined) graph = capture->graph;
  leave_capture(*capture);
  if (graph == nullptr) return broken ? Verdict::Illegal : Verdict::Unjoined;
  ++counts().graphs;
  counts().largest_graph = std::max(counts().largest_graph, static_cast<long>(graph->nodes.size()));
  return Verdict::Fine;
}

}  // namespace paper

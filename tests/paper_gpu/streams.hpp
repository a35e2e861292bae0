// SPDX-License-Identifier: Apache-2.0
// Streams, events and captures: which work follows which other.
#pragma once
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "tests/paper_gpu/engine.hpp"

namespace paper {

// One at a time calls the paper GPU. Held during each call of the runtime and of cuBLAS.
class Call {
 public:
  Call();
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
};

struct Capture;

struct Stream {
  int priority = 0;
  TaskPtr last;                     // null: no work so far
  Capture* capture = nullptr;       // which its work goes into
  std::vector<int> captured_after;  // nodes that its next one follows
};

struct Event {
  TaskPtr recorded;        // null: never outside of a capture
  long captured = 0;       // number of the capture in which it was last recorded; 0: in none
  std::vector<int> after;  // nodes of that capture
  bool asked = false;      // whether it was reached, since it was recorded
};

// Answers to a call; the runtime has a number of its own for each.
enum class Verdict { Fine, Illegal, OfAnotherCapture, Unjoined };

struct Capture {
  long number;
  std::thread::id by;
  Stream* origin;
  std::set<Stream*> streams;
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  bool broken = false;
};

Stream* make_stream(int priority);
void end_stream(Stream* stream);
Event* make_event();
void end_event(Event* event);

// Handles of the runtime stand for these. Problems: the default stream, which counts as one more stream; one that is
// destroyed, for which null is returned.
Stream* stream_of(const void* handle);
Event* event_of(const void* handle);

// Work goes to the GPU or into the capture that the stream is in.
void enqueue(Stream& stream, WorkPtr work);
void record(Stream& stream, Event& event);
Verdict wait(Stream& stream, const Event& event);
// The host waits for an event.
Verdict reach(const Event& event);

// True, and a problem: the thread captures, and may not make this call meanwhile.
bool illegal_in_capture(const char* call);
Verdict begin_capture(Stream& stream);
// The graph, null after a mistake.
Verdict end_capture(Stream& stream, std::shared_ptr<Graph>& graph);

}  // namespace paper

// SPDX-License-Identifier: Apache-2.0
// The effects of Ctrl-C, SIGTERM and --timeout: the program ends at once; while a result is being written, its
// temporary file is removed first.
#pragma once
#include <exception>
#include <string>

namespace dovetail::bench {

// Thrown by Writing::poll. main() lets it unwind and then calls end_by.
struct Stopped : std::exception {
  explicit Stopped(int number) : signal(number) {}
  const char* what() const noexcept override { return "stopped"; }
  int signal;
};

void install_stop_signals();
void stop_after(double seconds);  // exit code 1 then; 0: never
void end_by(int signal);          // so that whoever started the program sees what ended it
void end_if_stopped();            // by a signal that came while something was written

// Lives while temporary files exist. One at a time.
class Writing {
 public:
  Writing();
  ~Writing();
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

  static void poll();  // throws Stopped if a signal came since
};

// A file that is removed when a signal ends this process, and not when one ends a child that was forked from it.
// A process may have four at a time.
class RemovedWhenStopped {
 public:
  explicit RemovedWhenStopped(const std::string& path);
  ~RemovedWhenStopped();
  RemovedWhenStopped(const RemovedWhenStopped&) = delete;
  RemovedWhenStopped& operator=(const RemovedWhenStopped&) = delete;

 private:
  int slot_;
};

}  // namespace dovetail::bench

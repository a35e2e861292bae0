// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/interrupt.hpp"

#include <linux/limits.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstring>
#include <string_view>

#include "models/base/errors.hpp"

namespace dovetail::bench {
namespace {

volatile std::sig_atomic_t writing = 0;
volatile std::sig_atomic_t came = 0;

// Read by the signal handler, so nothing here is allocated.
struct Removable {
  std::atomic<pid_t> owner{0};  // 0: the slot is free
  std::array<char, PATH_MAX> path{};
};
std::array<Removable, 4> removables;

void remove_own() {
  const pid_t self = ::getpid();
  for (const Removable& file : removables)
    if (file.owner == self) ::unlink(file.path.data());
}

extern "C" void dovetail_on_signal(int signal) {
  if (writing)
    came = signal;
  else
    end_by(signal);
}

void install(int signal) {
  struct sigaction old = {};
  ::sigaction(signal, nullptr, &old);
  if (old.sa_handler == SIG_IGN) return;  // as under nohup
  struct sigaction action = {};
  action.sa_handler = dovetail_on_signal;  // without SA_RESTART: a blocked write returns
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

// Called from a signal handler: only what POSIX allows there.
void end_by(int signal) {
  remove_own();
  if (signal == SIGALRM) {
    constexpr std::string_view line = "dovetail: stopped: the time given by --timeout is over\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
    ::_exit(1);
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void install_stop_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) install(signal);
}

void stop_after(double seconds) {
  if (seconds <= 0) return;
  install(SIGALRM);
  itimerval timer = {};
  timer.it_value.tv_sec = static_cast<time_t>(seconds);
  timer.it_value.tv_usec = static_cast<suseconds_t>((seconds - std::floor(seconds)) * 1e6);
  ::setitimer(ITIMER_REAL, &timer, nullptr);
}

void end_if_stopped() {
  if (came) end_by(came);
}

Writing::Writing() {
  writing = 1;
}

Writing::~Writing() {
  writing = 0;
}

RemovedWhenStopped::RemovedWhenStopped(const std::string& path) : slot_(0) {
  while (slot_ < std::ssize(removables) && removables[static_cast<std::size_t>(slot_)].owner != 0) ++slot_;
  check(slot_ < std::ssize(removables) && path.size() < PATH_MAX, "no room for a file to remove");
  Removable& file = removables[static_cast<std::size_t>(slot_)];
  std::memcpy(file.path.data(), path.c_str(), path.size() + 1);
  file.owner = ::getpid();
}

RemovedWhenStopped::~RemovedWhenStopped() {
  removables[static_cast<std::size_t>(slot_)].owner = 0;
}

void Writing::poll() {
  if (const int signal = came; signal != 0) {
    came = 0;
    throw Stopped(signal);
  }
}

}  // namespace dovetail::bench

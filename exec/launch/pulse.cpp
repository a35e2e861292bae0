// SPDX-License-Identifier: Apache-2.0
#include "exec/launch/pulse.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>

namespace dovetail::exec {
namespace {

constexpr std::chrono::milliseconds period{100};
constexpr const char* pattern = "dovetail-exec rank %d finished %ld op %d longest %lf%n";

}  // namespace

std::string to_line(const Beat& beat) {
  return fmt::format("dovetail-exec rank {} finished {} op {} longest {:.3f}\n", beat.rank, beat.finished, beat.op,
                     beat.longest);
}

std::optional<Beat> parse_beat(std::string_view line) {
  const std::string text(line);
  Beat beat;
  int op = -1, end = 0;
  const int values = std::sscanf(text.c_str(), pattern, &beat.rank, &beat.finished, &op, &beat.longest,
                                 &end);  // NOLINT(cert-err34-c)
  if (values != 4 || static_cast<std::size_t>(end) != text.size()) return {};
  beat.op = OpId(op);
  return beat;
}

Pulse::Pulse(int rank, const Progress& progress)
    : thread_([rank, &progress](const std::stop_token& stop) {
        std::mutex mutex;
        std::condition_variable_any stopped;
        std::unique_lock lock(mutex);
        do {
          // One call writes the line, so that no other process's line comes in between.
          const std::string line = to_line({rank, progress.finished(), progress.earliest(), progress.longest()});
          if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) return;
        } while (!stopped.wait_for(lock, stop, period, [&] { return stop.stop_requested(); }));
      }) {}

}  // namespace dovetail::exec

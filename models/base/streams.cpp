// SPDX-License-Identifier: Apache-2.0
#include "models/base/streams.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "models/base/errors.hpp"

namespace dovetail {

void prepare_streams() {
  std::signal(SIGXFSZ, SIG_IGN);
  // Ascending, so that open() returns the number that is missing. Standard output is opened for reading: then a write
  // fails, as it would on the closed stream.
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0) [[maybe_unused]]
      const int opened = ::open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
}

void finish_standard_output() {
  const bool failed_before = std::ferror(stdout) != 0;
  if (std::fflush(stdout) == 0 && !failed_before) return;
  const int code = errno;
  throw DeviceError("cannot write standard output", failed_before ? "some of it was lost" : std::strerror(code),
                    failed_before ? 0 : code);
}

void show(std::string_view text) noexcept {
  [[maybe_unused]] const std::size_t written = std::fwrite(text.data(), 1, text.size(), stdout);
}

void say(std::string_view message) noexcept {
  [[maybe_unused]] const std::size_t written = std::fwrite(message.data(), 1, message.size(), stderr);
}

}  // namespace dovetail

// SPDX-License-Identifier: Apache-2.0
// A program that runs beside this one, with its output read through pipes. Gone with all that it started when this
// object goes.
#pragma once
#include <sys/types.h>

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dovetail::exec {

class ChildProcess {
 public:
  // `environment` is added to this process's; `input` becomes its standard input, -1: nothing. A process group of its
  // own: signals of the terminal are for whoever started it to pass on. Throws DeviceError where the program cannot be
  // started.
  ChildProcess(const std::vector<std::string>& command,
               const std::vector<std::pair<std::string, std::string>>& environment, int input = -1);
  ~ChildProcess();  // SIGTERM, and SIGKILL where that has not helped after 5 s
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Waits for output, at most this long, and adds it to `out` and `err`. False once the program has ended and
  // everything is read.
  bool read(int milliseconds);
  std::string out, err;

  int status();  // of waitpid; waits for the end

 private:
  bool drain(std::size_t which);
  bool ended();

  pid_t pid_ = -1;
  std::array<int, 2> pipes_{-1, -1};  // standard output, standard error; -1: closed
  std::optional<int> status_;
};

}  // namespace dovetail::exec

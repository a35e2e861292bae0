// SPDX-License-Identifier: Apache-2.0
// A resident dovetail-exec: one process, and so one CUDA context, executes requests one after another. To start a
// process for each takes several times as long as most measurements.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace dovetail::exec {

// The code with which a process of its own would have ended, and its words where it failed.
struct Outcome {
  int code = 0;
  std::string error = {};
};

using Execute = std::function<Outcome(const std::vector<std::string>& arguments)>;

// Listens at `socket`, a path that does not exist yet and is removed at the end; "-": standard input is a socket, and
// its other end the only client. A request is a line: a JSON array of the arguments that a process of its own would
// get. The answer is a line: {"code": 0, "error": ""}. Connections are served one at a time. A client that goes away in
// the middle of a request ends this process, since nothing else could end the request. Returns the exit code: 4 after a
// request with that code, because a device that failed is of no more use. Throws DeviceError where it cannot listen.
int serve(const std::string& socket, const Execute& execute);

}  // namespace dovetail::exec

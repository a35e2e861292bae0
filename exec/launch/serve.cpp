// SPDX-License-Identifier: Apache-2.0
#include "exec/launch/serve.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "exec/launch/socket.hpp"
#include "models/base/errors.hpp"
#include "models/base/streams.hpp"

namespace dovetail::exec {
namespace {

constexpr int device_failed = 4;

// While it lives, a connection that the other side closes ends the process.
class HangUpWatch {
 public:
  explicit HangUpWatch(int fd) : thread_([this, fd] { watch(fd); }) {}
  ~HangUpWatch() {
    over_ = true;
    thread_.join();
  }

 private:
  void watch(int fd) const {
    constexpr int between_looks = 20;  // ms
    while (!over_) {
      pollfd waited{fd, POLLRDHUP, 0};
      if (::poll(&waited, 1, between_looks) <= 0 || over_) continue;
      say("dovetail-exec: the client of a request went away\n");
      std::_Exit(device_failed);
    }
  }

  std::atomic<bool> over_ = false;
  std::thread thread_;
};

class SocketFile {
 public:
  explicit SocketFile(std::string path) : path_(std::move(path)) {}
  ~SocketFile() { ::unlink(path_.c_str()); }
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;

 private:
  std::string path_;
};

std::vector<std::string> words_of(const std::string& request) {
  try {
    return nlohmann::json::parse(request).get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception&) {
    throw InputError("a request that is no JSON array of texts: " + request);
  }
}

Outcome answer(const std::string& request, int fd, const Execute& execute) try {
  const std::vector<std::string> words = words_of(request);
  const HangUpWatch watch(fd);
  return execute(words);
} catch (const InputError& error) {
  return {2, error.what()};
}

// Until the client goes, or the device fails: then that code.
int serve_client(Socket client, const Execute& execute) {
  while (client.open()) {
    const std::optional<std::string> request = client.receive(-1);
    if (!request) continue;
    const Outcome outcome = answer(*request, client.fd(), execute);
    client.send(nlohmann::json{{"code", outcome.code}, {"error", outcome.error}}.dump());
    if (outcome.code == device_failed) return device_failed;
  }
  return 0;
}

}  // namespace

int serve(const std::string& path, const Execute& execute) {
  if (path == "-") return serve_client(Socket(::dup(STDIN_FILENO)), execute);
  const Socket listener = listen_at(path);
  const SocketFile file(path);
  int code = 0;
  while (code == 0) code = serve_client(Socket(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC)), execute);
  return code;
}

}  // namespace dovetail::exec

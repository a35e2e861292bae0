// SPDX-License-Identifier: Apache-2.0
// A socket of this machine, named by a path, over which lines go both ways.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace dovetail::exec {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;

  int fd() const { return fd_; }
  bool open() const { return fd_ >= 0; }

  bool send(std::string_view line) const;  // false: the other side is gone
  // The next line without its end, waiting at most so long for more of it; -1: for ever. None: not yet. An ended
  // connection is no longer open().
  std::optional<std::string> receive(int milliseconds);

 private:
  int fd_ = -1;
  std::string received_;
};

std::pair<Socket, Socket> connected_sockets();  // throws DeviceError
// Throws DeviceError where the path is too long for a socket, or taken.
Socket listen_at(const std::string& path);
// Not open where nobody listens there.
Socket connect_to(const std::string& path);

}  // namespace dovetail::exec

// SPDX-License-Identifier: Apache-2.0
#include "exec/launch/socket.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    throw DeviceError(path,
                      fmt::format("too long for a socket, which takes {} characters", sizeof address.sun_path - 1));
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

Socket::Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)), received_(std::move(other.received_)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(received_, other.received_);
  return *this;
}

bool Socket::send(std::string_view line) const {
  const std::string text = std::string(line) + '\n';
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t size = ::send(fd_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return false;
    sent += static_cast<std::size_t>(size);
  }
  return true;
}

std::optional<std::string> Socket::receive(int milliseconds) {
  for (;;) {
    if (const std::size_t end = received_.find('\n'); end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    pollfd waited{fd_, POLLIN, 0};
    if (::poll(&waited, 1, milliseconds) <= 0) return {};
    std::array<char, 1 << 16> buffer{};
    const ssize_t size = ::read(fd_, buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) {
      ::close(std::exchange(fd_, -1));
      return {};
    }
    received_.append(buffer.data(), static_cast<std::size_t>(size));
  }
}

std::pair<Socket, Socket> connected_sockets() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw DeviceError("socketpair", std::strerror(errno), errno);
  return {Socket(ends[0]), Socket(ends[1])};
}

Socket listen_at(const std::string& path) {
  const sockaddr_un address = address_of(path);
  Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  constexpr int waiting = 8;
  if (!socket.open() || ::bind(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket.fd(), waiting) != 0)
    throw DeviceError("a socket at " + path, std::strerror(errno), errno);
  return socket;
}

Socket connect_to(const std::string& path) {
  const sockaddr_un address = address_of(path);
  Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket.open() && ::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return {};
  return socket;
}

}  // namespace dovetail::exec

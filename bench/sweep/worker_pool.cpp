// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep/worker_pool.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include "models/base/errors.hpp"

namespace dovetail::bench {
namespace {

// All bytes, or false where the other side is gone.
bool receive_all(int from, void* target, std::size_t size) {
  for (auto* at = static_cast<char*>(target); size > 0;) {
    const ssize_t got = ::read(from, at, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

bool send_all(int to, const void* source, std::size_t size) {
  for (const auto* at = static_cast<const char*>(source); size > 0;) {
    const ssize_t put = ::write(to, at, size);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    at += put;
    size -= static_cast<std::size_t>(put);
  }
  return true;
}

struct Header {
  bool failed = false;
  std::size_t size = 0;
};

// A worker's life: pieces come in, results go out, until nothing comes.
[[noreturn]] void serve(int in, int out, const std::function<std::string(std::int64_t)>& work) {
  for (std::int64_t piece = 0; receive_all(in, &piece, sizeof piece);) {
    Header header;
    std::string result;
    try {
      result = work(piece);
    } catch (const std::exception& error) {
      header.failed = true;
      result = error.what();
    }
    header.size = result.size();
    if (!send_all(out, &header, sizeof header) || !send_all(out, result.data(), result.size())) break;
  }
  ::_exit(0);  // nothing of the parent's is flushed or removed here
}

class Worker {
 public:
  Worker(const std::function<std::string(std::int64_t)>& work, const std::vector<Worker>& others) {
    int to[2], from[2];
    if (::pipe(to) != 0 || ::pipe(from) != 0) throw DeviceError("pipe", std::strerror(errno));
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) throw DeviceError("fork", std::strerror(errno));
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(0);
      for (const Worker& other : others) other.close_ends();  // else they would not see that the parent is gone
      ::close(to[1]);
      ::close(from[0]);
      serve(to[0], from[1], work);
    }
    ::close(to[0]);
    ::close(from[1]);
    in_ = to[1];
    out_ = from[0];
  }
  Worker(Worker&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), in_(other.in_), out_(other.out_), piece_(other.piece_) {}
  Worker& operator=(Worker&&) = delete;
  ~Worker() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    close_ends();
    ::waitpid(pid_, nullptr, 0);
  }

  int out() const { return out_; }
  bool busy() const { return piece_ >= 0; }

  void give(std::int64_t piece) {
    piece_ = piece;
    if (!send_all(in_, &piece, sizeof piece)) fail();
  }

  std::pair<std::int64_t, std::string> take() {
    Header header;
    if (!receive_all(out_, &header, sizeof header)) fail();
    std::string result(header.size, '\0');
    if (!receive_all(out_, result.data(), result.size())) fail();
    if (header.failed) throw InternalError(fmt::format("piece {}: {}", piece_, result));
    return {std::exchange(piece_, -1), std::move(result)};
  }

 private:
  void close_ends() const {
    ::close(in_);
    ::close(out_);
  }
  [[noreturn]] void fail() const {
    throw DeviceError("worker process", fmt::format("died in piece {}; nothing finished is lost", piece_));
  }

  pid_t pid_ = -1;
  int in_ = -1, out_ = -1;
  std::int64_t piece_ = -1;
};

}  // namespace

void for_each_piece(std::int64_t count, int workers, const std::function<std::string(std::int64_t)>& work,
                    const std::function<void(std::int64_t, std::string)>& done) {
  if (workers == 1) {
    for (std::int64_t piece = 0; piece < count; ++piece) done(piece, work(piece));
    return;
  }
  std::vector<Worker> pool;
  pool.reserve(static_cast<std::size_t>(workers));
  for (std::int64_t i = 0; i < std::min<std::int64_t>(workers, count); ++i) pool.emplace_back(work, pool);
  std::int64_t next = 0;
  for (Worker& worker : pool) worker.give(next++);
  std::vector<pollfd> ends;
  while (std::ranges::any_of(pool, &Worker::busy)) {
    ends.clear();
    for (const Worker& worker : pool) ends.push_back({worker.busy() ? worker.out() : -1, POLLIN, 0});
    if (::poll(ends.data(), ends.size(), -1) < 0 && errno != EINTR) throw DeviceError("poll", std::strerror(errno));
    for (std::size_t i = 0; i < pool.size(); ++i) {
      if (ends[i].revents == 0) continue;
      auto [piece, result] = pool[i].take();
      done(piece, std::move(result));
      if (next < count) pool[i].give(next++);
    }
  }
}

}  // namespace dovetail::bench

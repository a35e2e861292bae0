// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/line_log.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "models/base/errors.hpp"

namespace dovetail::bench {
namespace {

constexpr std::int64_t longest_first_line = 256'000'000;  // all inputs of a validation; a larger file is not ours

Descriptor open_log(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
  struct stat status = {};
  const int reason = errno;
  if (!file.open())
    throw InputError(
        fmt::format("cannot write {}: {}", path,
                    reason == ELOOP ? "it is a symbolic link, which is not followed here" : std::strerror(reason)));
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
    throw InputError(fmt::format("cannot write {}: it is no regular file", path));
  return file;
}

}  // namespace

LineLog::LineLog(std::string path) : path_(std::move(path)), file_(open_log(path_)) {}

LineLog::~LineLog() {
  if (ours_ && empty_) ::unlink(path_.c_str());
}

std::string LineLog::read(std::int64_t from, std::int64_t most) const {
  std::string text;
  constexpr std::int64_t piece = 1 << 20;
  while (std::ssize(text) < most) {
    const std::int64_t at = std::ssize(text), size = std::min(piece, most - at);
    text.resize(static_cast<std::size_t>(at + size));
    const ssize_t got = ::pread(file_.get(), text.data() + at, static_cast<std::size_t>(size), from + at);
    if (got < 0 && errno != EINTR) throw DeviceError("cannot read " + path_, std::strerror(errno), errno);
    text.resize(static_cast<std::size_t>(at + std::max<ssize_t>(got, 0)));
    if (got == 0) break;
  }
  return text;
}

std::optional<std::string> LineLog::first_line(std::string_view first) const {
  std::string text;
  for (;;) {
    const std::string more = read(std::ssize(text), std::max(std::ssize(first) + 1, std::int64_t{1} << 20));
    const std::size_t end = more.find('\n');
    text += more.substr(0, end);
    if (end != std::string::npos || std::ssize(text) > longest_first_line) return text;
    if (more.empty()) return first.starts_with(text) ? std::nullopt : std::optional(text);
  }
}

std::string LineLog::rest() const {
  std::string text = read(0, std::numeric_limits<std::int64_t>::max());
  text.resize(text.rfind('\n') + 1);
  return text.substr(text.find('\n') + 1);
}

void LineLog::begin(std::string_view first, std::int64_t whole, std::chrono::milliseconds sync) {
  if (::ftruncate(file_.get(), whole) != 0) throw DeviceError("cannot write " + path_, std::strerror(errno), errno);
  sync_ = sync;
  ours_ = true;
  if (whole == 0) add(std::string(first) + '\n');
  empty_ = whole <= std::ssize(first) + 1;
}

void LineLog::add(std::string_view lines) {
  for (std::string_view left = lines; !left.empty();) {
    const ssize_t put = ::write(file_.get(), left.data(), left.size());
    if (put < 0 && errno != EINTR) throw DeviceError("cannot write " + path_, std::strerror(errno), errno);
    left.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(put, 0)));
  }
  empty_ = false;
  const auto now = std::chrono::steady_clock::now();
  if (now - synced_ < sync_) return;  // each takes some milliseconds
  if (::fdatasync(file_.get()) != 0) throw DeviceError("cannot write " + path_, std::strerror(errno), errno);
  synced_ = now;
}

void LineLog::remove() {
  ::unlink(path_.c_str());
  ours_ = false;
}

}  // namespace dovetail::bench

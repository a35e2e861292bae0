// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/lock_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "models/base/errors.hpp"
#include "models/base/streams.hpp"

namespace dovetail::bench {
namespace {

// Two names of one file have one lock.
std::string lock_name(const std::string& path) {
  std::error_code error;
  const auto place = std::filesystem::weakly_canonical(path, error);
  return (error ? path : place.string()) + ".lock";
}

Descriptor open_lock(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
  if (!file.open()) throw InputError(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > 0)
    throw InputError(
        fmt::format("{} is not a lock of dovetail, which is an empty file: rename it or name another output", path));
  return file;
}

struct flock whole_file() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

// Whether the name still stands for the file: whoever had the lock before may have removed it.
bool is_named(const Descriptor& file, const std::string& path) {
  struct stat here = {}, there = {};
  return ::fstat(file.get(), &here) == 0 && ::lstat(path.c_str(), &there) == 0 && here.st_dev == there.st_dev &&
         here.st_ino == there.st_ino;
}

}  // namespace

LockFile::LockFile(const std::string& path, std::chrono::milliseconds patience) : path_(path), lock_(lock_name(path)) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!take()) {
    if (std::chrono::steady_clock::now() >= end) refuse();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (file_.open()) removed_.emplace(lock_);
}

LockFile::~LockFile() {
  if (file_.open()) ::unlink(lock_.c_str());
}

// A process's own lock, not one of the open file: those go on to forked children.
bool LockFile::take() {
  for (;;) {
    Descriptor file = open_lock(lock_);
    struct flock lock = whole_file();
    if (::fcntl(file.get(), F_SETLK, &lock) != 0) {
      if (errno == EACCES || errno == EAGAIN) return false;
      say(fmt::format("dovetail: {} cannot be locked ({}): let no other program write {}\n", lock_,
                      std::strerror(errno), path_));
      ::unlink(lock_.c_str());
      return true;
    }
    if (!is_named(file, lock_)) continue;
    file_ = std::move(file);
    return true;
  }
}

void LockFile::refuse() const {
  const Descriptor file(::open(lock_.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  struct flock lock = whole_file();
  const bool known = ::fcntl(file.get(), F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK && lock.l_pid > 0;
  throw InputError(fmt::format("{} is in use by {}: wait until it ends, or name another file", path_,
                               known ? fmt::format("process {}", lock.l_pid) : "another process"));
}

}  // namespace dovetail::bench

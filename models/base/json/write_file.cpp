// SPDX-License-Identifier: Apache-2.0
#include "models/base/json/write_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "models/base/errors.hpp"

namespace dovetail {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_path(const fs::path& path, std::string_view why) {
  throw InputError(fmt::format("cannot write {}: {}", path.string(), why));
}

[[noreturn]] void fail_writing(const fs::path& path, int code) {
  throw DeviceError(fmt::format("cannot write {}", path.string()), std::strerror(code), code);
}

constexpr int most_attempts = 100;  // at a name that nothing has
constexpr std::string_view prefix = ".dovetail.", suffix = ".tmp";

fs::path folder_of(const fs::path& target) {
  return target.has_parent_path() ? target.parent_path() : fs::path(".");
}

// The path that symbolic links lead to, whether or not there is a file.
fs::path end_of_links(fs::path path) {
  std::error_code error;
  while (fs::is_symlink(fs::symlink_status(path, error))) path = path.parent_path() / fs::read_symlink(path);
  return path;
}

// Another machine on the same disk may have our process number.
fs::path temporary_beside(const fs::path& target) {
  static std::atomic<int> count{0};
  return target.parent_path() / fmt::format("{}{}-{}{}", prefix, ::getpid(), count++, suffix);
}

void remove_if_dead(const fs::path& temporary) {
  const Descriptor file(::open(temporary.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status = {};
  if (!file.open() || ::fstat(file.get(), &status) != 0) return;
  if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid()) return;
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(temporary.c_str());
}

// Temporaries of processes that were killed: those in use are locked.
void remove_leftovers(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(suffix)) remove_if_dead(entry->path());
  }
}

// None where the file system cannot, or nothing could give the file its name later.
Descriptor open_nameless(const fs::path& folder) {
  if (::access("/proc/self/fd", X_OK) != 0) return Descriptor();
  Descriptor file(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666));
  if (file.open()) ::flock(file.get(), LOCK_EX | LOCK_NB);
  return file;
}

// None, with errno, where something else has the name.
Descriptor open_named(const fs::path& temporary) {
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  struct stat status = {};
  if (!file.open()) return file;
  ::flock(file.get(), LOCK_EX);
  if (::fstat(file.get(), &status) == 0 && status.st_nlink > 0) return file;
  errno = EEXIST;  // another process took it for a leftover before it was locked
  return Descriptor();
}

}  // namespace

OutputFile::OutputFile(fs::path path) : shown_(std::move(path)), target_(shown_) {
  if (shown_.empty()) refuse_path("\"\"", "no file name");
  if (shown_ == "-") {
    shown_ = "standard output";
    file_ = stdout;
    return;
  }
  std::error_code error;
  const fs::file_status status = fs::status(shown_, error);
  if (fs::is_directory(status)) refuse_path(shown_, "Is a directory");
  if (fs::exists(status) && !fs::is_regular_file(status)) {  // renaming over /dev/null would replace it
    file_ = std::fopen(shown_.c_str(), "wb");
    if (!file_) refuse_path(shown_, std::strerror(errno));
    return;
  }
  open_temporary();
}

void OutputFile::open_temporary() {
  std::error_code error;
  if (const fs::path real = fs::canonical(shown_, error); !error) {
    target_ = real;
    if (::access(target_.c_str(), W_OK) != 0) refuse_path(shown_, std::strerror(errno));
  } else if (!shown_.has_filename()) {
    refuse_path(shown_, "Is a directory");
  } else if (error != std::errc::no_such_file_or_directory) {
    refuse_path(shown_, std::strerror(error.value()));
  } else {
    target_ = end_of_links(shown_);
  }
  remove_leftovers(folder_of(target_));
  Descriptor file = open_nameless(folder_of(target_));
  for (int attempt = 0; !file.open(); ++attempt) {
    const fs::path name = temporary_beside(target_);
    file = open_named(name);
    if (file.open())
      temporary_ = name;
    else if (errno != EEXIST || attempt == most_attempts)
      refuse_path(shown_, std::strerror(errno));
  }
  struct stat replaced = {};
  if (::stat(target_.c_str(), &replaced) == 0) ::fchmod(file.get(), replaced.st_mode & 07777);
  kept_ = Descriptor(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
  file_ = kept_.open() ? ::fdopen(file.get(), "wb") : nullptr;
  if (!file_) {
    const int code = errno;
    discard();
    fail_writing(shown_, code);
  }
  file.release();
}

OutputFile::~OutputFile() {
  discard();
}

void OutputFile::discard() noexcept {
  if (file_ && file_ != stdout) std::fclose(file_);
  file_ = nullptr;
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
  kept_ = Descriptor();
}

void OutputFile::write(std::string_view content) {
  check(file_ != nullptr, "write to a finished file");
  if (std::fwrite(content.data(), 1, content.size(), file_) == content.size()) return;
  const int code = errno;
  discard();
  fail_writing(shown_, code);
}

void OutputFile::finish(Durability durability) {
  check(file_ != nullptr, "file finished twice");
  bool ok = std::fflush(file_) == 0;
  if (ok && durability == Durability::Flush && !direct()) ok = ::fsync(::fileno(file_)) == 0;
  int code = errno;
  if (file_ != stdout && std::fclose(file_) != 0 && ok) {
    ok = false;
    code = errno;
  }
  file_ = nullptr;
  if (!ok) {
    discard();
    fail_writing(shown_, code);
  }
  if (!direct()) take_name();
}

// Only rename() replaces a file, so that what has no name gets one for a moment.
void OutputFile::take_name() {
  const std::string nameless = fmt::format("/proc/self/fd/{}", kept_.get());
  for (int attempt = 0; temporary_.empty(); ++attempt) {
    const fs::path name = temporary_beside(target_);
    if (::linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      temporary_ = name;
    } else if (errno != EEXIST || attempt == most_attempts) {
      const int code = errno;
      discard();
      fail_writing(shown_, code);
    }
  }
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) {
    const int code = errno;
    discard();
    refuse_path(shown_, std::strerror(code));
  }
  temporary_.clear();
  kept_ = Descriptor();
}

void write_file(const fs::path& path, std::string_view content, Durability durability) {
  OutputFile file(path);
  file.write(content);
  file.finish(durability);
}

}  // namespace dovetail

#include "models/base/json/write_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
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

fs::path temporary_beside(const fs::path& target) {
  static std::atomic<int> count{0};
  return target.parent_path() / fmt::format(".dovetail-{}-{}.tmp", ::getpid(), count++);
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
  }
  int descriptor = -1;
  for (int attempt = 0; descriptor < 0; ++attempt) {  // another machine on the same disk may have our process number
    const fs::path name = temporary_beside(target_);
    descriptor = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0)
      temporary_ = name;
    else if (errno != EEXIST || attempt == 100)
      refuse_path(shown_, std::strerror(errno));
  }
  struct stat replaced = {};
  if (::stat(target_.c_str(), &replaced) == 0) ::fchmod(descriptor, replaced.st_mode & 07777);
  file_ = ::fdopen(descriptor, "wb");
  if (!file_) {
    const int code = errno;
    ::close(descriptor);
    discard();
    fail_writing(shown_, code);
  }
}

OutputFile::~OutputFile() {
  discard();
}

void OutputFile::discard() noexcept {
  if (file_ && file_ != stdout) std::fclose(file_);
  file_ = nullptr;
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
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
  if (ok && durability == Durability::Flush && !temporary_.empty()) ok = ::fsync(::fileno(file_)) == 0;
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
  if (!temporary_.empty() && std::rename(temporary_.c_str(), target_.c_str()) != 0) {
    code = errno;
    discard();
    refuse_path(shown_, std::strerror(code));
  }
  temporary_.clear();
}

void write_file(const fs::path& path, std::string_view content, Durability durability) {
  OutputFile file(path);
  file.write(content);
  file.finish(durability);
}

}  // namespace dovetail

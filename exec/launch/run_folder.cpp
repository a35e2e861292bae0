// SPDX-License-Identifier: Apache-2.0
#include "exec/launch/run_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <system_error>

#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

namespace fs = std::filesystem;

// When a process began, in the kernel's ticks: with it a number tells processes apart that had it one after another.
// Empty if there is no such process.
std::string start_of(const std::string& process) {
  std::ifstream file("/proc/" + process + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_end = text.rfind(')');  // the program's name may hold anything
  if (name_end == std::string::npos) return {};
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int i = 0; i < 20; ++i) fields >> field;  // field 22; the state, after the name, is the third
  return field;
}

// A folder that `open` could open and lock: nobody else holds it.
class LockedFolder {
 public:
  explicit LockedFolder(const fs::path& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) {
    if (fd_ >= 0 && ::flock(fd_, LOCK_EX | LOCK_NB) == 0) locked_ = true;
  }
  ~LockedFolder() {
    if (fd_ >= 0) ::close(fd_);
  }
  LockedFolder(const LockedFolder&) = delete;
  LockedFolder& operator=(const LockedFolder&) = delete;
  bool is_ours() const {
    struct stat status = {};
    return locked_ && ::fstat(fd_, &status) == 0 && status.st_uid == ::geteuid();
  }

 private:
  int fd_;
  bool locked_ = false;
};

// Removes the folders of this user whose process is gone and which no process that it started has locked.
void remove_left_folders(const fs::path& base) {
  static const std::regex pattern(R"(dovetail-(\d+)-(\d+)-\w{6})");
  std::error_code ignored;
  for (auto entry = fs::directory_iterator(base, fs::directory_options::skip_permission_denied, ignored);
       entry != fs::directory_iterator(); entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    std::smatch parts;
    if (!std::regex_match(name, parts, pattern) || start_of(parts[1]) == parts[2]) continue;
    const LockedFolder folder(entry->path());
    if (folder.is_ours()) fs::remove_all(entry->path(), ignored);
  }
}

}  // namespace

RunFolder::RunFolder(const fs::path& base) {
  remove_left_folders(base);
  path_ = (base / fmt::format("dovetail-{}-{}-XXXXXX", ::getpid(), start_of("self"))).string();
  if (::mkdtemp(path_.data()) == nullptr) throw DeviceError("mkdtemp " + path_, std::strerror(errno), errno);
  lock_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY);
  if (lock_ >= 0) ::flock(lock_, LOCK_EX);
}

RunFolder::~RunFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

}  // namespace dovetail::exec

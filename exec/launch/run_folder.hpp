// SPDX-License-Identifier: Apache-2.0
// A folder for the files of one run. Gone when this object goes; where the program was killed, the next one removes it.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace dovetail::exec {

class RunFolder {
 public:
  // A new folder in `base`, after removing those in it that killed programs of this user left. Processes that are
  // started while it lives keep it from being taken for such a one until they have ended. Throws DeviceError.
  explicit RunFolder(const std::filesystem::path& base);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return (std::filesystem::path(path_) / name).string(); }

 private:
  std::string path_;
  int lock_ = -1;  // the folder, open and locked: inherited by what this program starts
};

}  // namespace dovetail::exec
